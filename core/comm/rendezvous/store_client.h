// A process's connection to the store of its job.
//
// Thread-safe. Once the job has failed, every wait ends with the failure, which listeners hear of
// too; nothing is sent any more, and every attempt returns the failure. What was sent as a whole
// before the failure was known is a success.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_CLIENT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_CLIENT_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/deadline.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/socket.h"
#include "core/comm/rendezvous/store_frame.h"

namespace dpipe {

struct StoreClientOptions {
  std::string host;
  int port = 0;
  JobSecret secret;  // see StoreServerOptions
  std::string job;   // see StoreServerOptions
  int process = 0;
  int num_processes = 1;
  std::string name;                                  // for people: "rank 3 (pid 4711 on node2)"
  std::string on_host;                               // its name: where this process runs
  absl::Duration join_deadline = absl::Seconds(60);  // for all processes to come
  absl::Duration silence = absl::Seconds(20);        // longest that the store may not be heard of
};

class StoreClient {
 public:
  // Returns when all processes of the job are there. Store and process prove to each other first
  // that they know the job's secret. Tries again if nothing answers yet, or if another job or one
  // with another secret answers. DeadlineExceeded, Unavailable and FailedPrecondition name host,
  // port and process, and so does the job's failure, if it has already failed.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Join(const StoreClientOptions& options);
  // Leaves: from then on this process is not missed.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  int process() const { return options_.process; }
  int num_processes() const { return options_.num_processes; }
  // By which the other processes reach this one.
  const std::string& address() const { return joined_.address(); }
  // What errors call a process.
  const std::string& NameOf(int process) const { return joined_.names(process); }

  // The host name that a process has given as on_host.
  const std::string& HostOf(int process) const { return joined_.hosts(process); }

  // Proves to other processes of the job that this one belongs to it: HMAC-SHA256 of `text` by the
  // job's secret, of kHmacBytes (hmac.h). No text is to be used twice.
  std::string Sign(absl::string_view text) const { return options_.secret.Sign(text); }

  // A key is to be set once: processes that have read it keep that value. ResourceExhausted, as for
  // a note, where it is longer than messages may be (store_frame.h).
  absl::Status Set(const std::string& key, const std::string& value);
  // Waits until there is a value, forever if need be: a dead process ends the wait. `what` names it
  // in errors.
  absl::StatusOr<std::string> Get(const std::string& key, const std::string& what,
                                  absl::Duration deadline = absl::InfiniteDuration());

  // To a process, which gets the notes of one sender and key in the order in which they were sent:
  // by waiting for the next one, or by a handler that is called on a thread of the store's, first
  // of all with those that came before it. A handler must not wait. An empty one ends that: the
  // handler before is not called any more, nor running.
  absl::Status SendNote(int to, const std::string& key, const std::string& value);
  absl::StatusOr<std::string> TakeNote(const std::string& key, const std::string& what,
                                       absl::Duration deadline = absl::InfiniteDuration());
  void OnNote(const std::string& key, std::function<void(const std::string& value)> handler);

  // Ends the job; the first failure counts.
  void Fail(const absl::Status& status);
  absl::Status failure() const;
  // Waits up to `deadline` for a failure; true if there is one.
  bool AwaitFailure(absl::Duration deadline) const;
  // Called once the job has failed, or at once, on some thread. Returns what to remove it by; after
  // that it is not called, nor running.
  int AddFailureListener(std::function<void(const absl::Status&)> listener);
  void RemoveFailureListener(int id);

 private:
  StoreClient(const StoreClientOptions& options, Socket socket)
      : options_(options), socket_(std::move(socket)) {}
  // Unavailable: another store, or none, may answer if one tries again. The store itself gives up
  // at the deadline of joining, and knows who is missing; `limit` is longer.
  absl::Status AwaitWelcome(absl::Duration limit);
  absl::Status Prove(const Deadline& deadline);
  // Exactly so many; Unavailable if the connection closes, with `closed` for words.
  absl::StatusOr<std::string> ReceiveBytes(size_t count, const Deadline& deadline,
                                           const std::string& closed);
  void Loop();
  void Handle(StoreMessage message);
  // Waits for `done`, which is evaluated under mutex_, or for the failure.
  template <typename Done>
  absl::Status Await(const Done& done, const std::string& what, absl::Duration deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first that waits under this key.
  std::string Take(std::map<std::string, std::deque<std::string>>* from, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFailure(const absl::Status& status);
  absl::Status Send(const StoreMessage& message);
  absl::Status WriteFrame(const StoreMessage& message);
  absl::Status SendFrame(const StoreMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // What a message's sending came to: a store that takes nothing is a failure.
  absl::Status Sent(const absl::Status& sent);
  void Beat();
  // "rank 0 (pid 4711 on node1), the host of the job's store,".
  std::string StoreName() const;

  const StoreClientOptions options_;
  StoreMessage::Joined joined_;
  absl::Mutex write_mutex_;
  bool broken_ ABSL_GUARDED_BY(write_mutex_) = false;  // a message was not sent whole
  FrameWriter writer_ ABSL_GUARDED_BY(write_mutex_);
  Socket socket_;   // written under write_mutex_, read by the thread
  FrameReader in_;  // the thread's
  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // One for each Get that waits.
  std::map<std::string, std::deque<std::string>> values_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<std::string>> notes_ ABSL_GUARDED_BY(mutex_);  // to be taken
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex notes_mutex_;  // held while handlers run
  std::map<std::string, std::function<void(const std::string&)>> note_handlers_
      ABSL_GUARDED_BY(notes_mutex_);
  absl::Mutex listeners_mutex_;  // held while they run
  std::map<int, std::function<void(const absl::Status&)>> listeners_
      ABSL_GUARDED_BY(listeners_mutex_);
  int next_listener_ ABSL_GUARDED_BY(listeners_mutex_) = 0;
  bool notified_ ABSL_GUARDED_BY(listeners_mutex_) = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_CLIENT_H_
