// What the processes of a job meet at: a table of keys and values, the news of who has died, and
// notes from process to process. One process of the job, number 0, hosts it on a thread.
//
// The store decides what is wrong with a job. A process whose connection closes before it said that
// it leaves has died; one that has not been heard of for a while is frozen or cut off from the
// network; one may also say that it failed. All processes hear of the first of these failures, in
// the same words.
//
// A client must first prove that it knows the job's secret (store_challenge.h). Until then it is a
// stranger: the store sends it only a random nonce, and reads only the answer. The number of
// strangers and their time are limited. If there are too many, the store drops the oldest one of
// the address that has the most, so that a flood from one host does not keep others out. A process
// that was dropped tries again.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_SERVER_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/socket.h"
#include "core/comm/rendezvous/store_frame.h"

namespace dpipe {

// Changes with every incompatible change of StoreMessage.
inline constexpr int kStoreProtocol = 4;

struct StoreServerOptions {
  JobSecret secret;  // which all processes know; must not be empty
  int num_processes = 1;
  // Only processes of this job are let in: what another run of it has left alive is refused.
  std::string job;
  absl::Duration join_deadline = absl::Seconds(60);  // for all processes to come
  absl::Duration silence = absl::Seconds(20);        // longest that a process may not be heard of
  absl::Duration stranger_deadline = absl::Seconds(5);  // to prove itself, and to join
  // Gets a line for people, now and then, about strangers that were refused. Empty: standard error.
  std::function<void(const std::string& line)> say;
};

class StoreServer {
 public:
  // Takes listening sockets, which all have the same port; at least one.
  StoreServer(std::vector<Socket> listeners, const StoreServerOptions& options);
  StoreServer(Socket listener, const StoreServerOptions& options);
  // Waits until all processes have left, or a failure has been told to them; not longer than the
  // silence that is allowed.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

 private:
  // Everything below is the thread's own.
  struct Client {
    Socket socket;
    std::string address;
    std::string nonce;    // that it was sent
    std::string answer;   // so far
    bool proven = false;  // that it knows the secret
    FrameReader in;
    FrameWriter writer;
    OutgoingBytes out;  // to be sent
    int process = -1;   // until it has said who it is
    std::string name;
    absl::Duration age;  // until then
    absl::Duration silent;
    bool gone = false;
    std::vector<std::string> wanted;  // keys that it waits for, once for each answer
  };
  void Loop();
  void PollOnce();
  void Tick(absl::Duration elapsed);
  bool Finished(absl::Duration stopping_for) const;
  void Accept(const Socket& listener);
  void MakeRoom();
  void ReadAnswer(Client* client);
  void Refuse(Client* client);
  void ReportRefused(absl::Duration elapsed);
  std::string RefusalSummary() const;
  void Read(Client* client);
  void Handle(Client* client, StoreMessage message);
  void Join(Client* client, const StoreMessage::Join& join);
  std::string WhyRefused(const StoreMessage::Join& join) const;
  std::string WhyNotNow(const StoreMessage::Join& join) const;
  void WelcomeAll();
  std::string AddressOf(const Client& client) const;
  void Set(StoreMessage::Entry entry);
  void Lost(Client* client);
  void Fail(const absl::Status& status);
  void Send(Client* client, const StoreMessage& message);
  int num_joined() const { return static_cast<int>(joined_.size()); }
  bool all_joined() const { return num_joined() == options_.num_processes; }

  const StoreServerOptions options_;
  const std::vector<Socket> listeners_;
  const int port_;
  std::list<Client> clients_;
  std::map<int, StoreMessage::Join> joined_;  // by process, as each has said who it is
  std::map<std::string, std::string> table_;
  absl::Status failure_;  // the job's: the first
  absl::Duration age_, since_heartbeat_;
  int64_t num_refused_ = 0, num_said_ = 0;  // strangers, and those that people know of
  std::string last_refused_;                // its address
  absl::Duration since_report_ = absl::InfiniteDuration();
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_SERVER_H_
