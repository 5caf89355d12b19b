// Meeting point of a job's processes: a table of keys and values, failure detection, and notes from
// process to process. Process 0 of the job hosts it on a thread.
//
// The store decides when a job has failed. A process whose connection closes without a farewell has
// died; one that has been silent for too long is frozen or cut off from the network; and a process
// may report its own failure. All processes are notified of the first of these failures, in the
// same words.
//
// A client must first prove that it knows the job's secret (store_frame.h). Until then it is a
// stranger: the store sends it only a random nonce, and reads only the answer. The number of
// strangers and their time are limited. If there are too many, the store drops the oldest one from
// the address that has the most, so that a flood from one host does not keep others out. A dropped
// process retries.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_SERVER_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_SERVER_H_

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
#include "core/comm/rendezvous/store/store_frame.h"

namespace dpipe {

// Incremented with every incompatible change of StoreMessage.
inline constexpr int kStoreProtocol = 4;

struct StoreServerOptions {
  JobSecret secret;  // known to all processes; must not be empty
  int num_processes = 1;
  // Only processes of this job are admitted, and survivors of an earlier run are refused.
  std::string job;
  absl::Duration join_deadline = absl::Seconds(60);  // for all processes to join
  absl::Duration silence = absl::Seconds(20);  // maximum time without a message from a process
  absl::Duration stranger_deadline = absl::Seconds(5);  // to prove itself, and to join
  // Receives a line of text from time to time about refused strangers. If empty, they go to
  // standard error.
  std::function<void(const std::string& line)> say;
};

class StoreServer {
 public:
  // Takes listening sockets, at least one. All have the same port.
  StoreServer(std::vector<Socket> listeners, const StoreServerOptions& options);
  StoreServer(Socket listener, const StoreServerOptions& options);
  // Blocks until all processes have left or have been notified of a failure, at most as long as a
  // process may be silent.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

 private:
  // Everything below belongs to the thread.
  struct Client {
    Socket socket;
    std::string address;
    std::string nonce;    // sent to it
    std::string answer;   // received so far
    bool proven = false;  // that it knows the secret
    FrameReader in;
    FrameWriter writer;
    OutgoingBytes out;  // to be sent
    int process = -1;   // -1 until it has joined
    std::string name;
    absl::Duration age;  // until it has joined
    absl::Duration silent;
    bool gone = false;
    std::vector<std::string> wanted;  // keys that it waits for, one entry per answer
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
  std::string RetryReason(const StoreMessage::Join& join) const;
  void WelcomeAll();
  std::string AddressOf(const Client& client) const;
  void Set(StoreMessage::Entry entry);
  void OnDisconnect(Client* client);
  void Fail(const absl::Status& status);
  void Send(Client* client, const StoreMessage& message);
  int num_joined() const { return static_cast<int>(joined_.size()); }
  bool all_joined() const { return num_joined() == options_.num_processes; }

  const StoreServerOptions options_;
  const std::vector<Socket> listeners_;
  const int port_;
  std::list<Client> clients_;
  std::map<int, StoreMessage::Join> joined_;  // by process, as each one sent it
  std::map<std::string, std::string> table_;
  absl::Status failure_;  // the job's first failure
  absl::Duration age_, since_heartbeat_;
  int64_t num_refused_ = 0, num_reported_ = 0;  // strangers, and those that were reported
  std::string last_refused_;                    // its address
  absl::Duration since_report_ = absl::InfiniteDuration();
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_SERVER_H_
