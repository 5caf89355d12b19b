// A process's connection to the store of its job.
//
// Thread-safe. Once the job has failed, every wait ends with the failure, and listeners are
// notified. Nothing is sent any more, and every attempt returns the failure. A message that was
// sent completely before the failure was known counts as a success.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CLIENT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CLIENT_H_

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
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/socket.h"
#include "core/comm/rendezvous/store/store_frame.h"

namespace dpipe {

struct StoreClientOptions {
  std::string host;
  int port = 0;
  JobSecret secret;  // see StoreServerOptions
  std::string job;   // see StoreServerOptions
  int process = 0;
  int num_processes = 1;
  std::string name;                                  // for messages: "rank 3 (pid 4711 on node2)"
  std::string on_host;                               // name of this process's host
  absl::Duration join_deadline = absl::Seconds(60);  // for all processes to join
  absl::Duration silence = absl::Seconds(20);  // maximum time without a message from the store
};

class StoreClient {
 public:
  // Returns when all processes of the job have joined. First, store and process prove to each other
  // that they know the job's secret. Retries if nothing answers yet, or if another job or one with
  // another secret answers. Returns DeadlineExceeded, Unavailable or FailedPrecondition, with host,
  // port and process in the message. Returns the job's failure, named in the same way, if it has
  // failed.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Join(const StoreClientOptions& options);
  // Leaves the job: afterwards, the absence of this process is not a failure.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  int process() const { return options_.process; }
  int num_processes() const { return options_.num_processes; }
  // Returns the address at which other processes reach this one.
  const std::string& address() const { return joined_.address(); }
  // Returns the name of a process in errors.
  const std::string& NameOf(int process) const { return joined_.names(process); }

  // Returns the host name that a process has passed as on_host.
  const std::string& HostOf(int process) const { return joined_.hosts(process); }

  // Proves to other processes of the job that this one belongs to it: returns the HMAC-SHA256 of
  // `text` by the job's secret, kHmacBytes long (job_secret.h). Use each text only once.
  std::string Sign(absl::string_view text) const { return options_.secret.Sign(text); }

  // Sets a key's value. Set each key only once: processes that have read it keep that value.
  // Returns ResourceExhausted, as SendNote does, if the message is too long (store_frame.h).
  absl::Status Set(const std::string& key, const std::string& value);
  // Blocks until the key has a value, forever if necessary; the death of a process ends the wait.
  // `what` names the value in errors.
  absl::StatusOr<std::string> Get(const std::string& key, const std::string& what,
                                  absl::Duration deadline = absl::InfiniteDuration());

  // Sends a note to a process. Notes with one sender and key arrive in the order sent. They are
  // received by waiting for the next one (TakeNote), or by a handler (OnNote). OnNote first calls
  // the handler with the notes that came before it; later ones are handled on a thread of the
  // client. A handler must not block. An empty handler removes the previous one, which is then
  // neither called any more nor running.
  absl::Status SendNote(int to, const std::string& key, const std::string& value);
  absl::StatusOr<std::string> TakeNote(const std::string& key, const std::string& what,
                                       absl::Duration deadline = absl::InfiniteDuration());
  void OnNote(const std::string& key, std::function<void(const std::string& value)> handler);

  // Ends the job. Only the first failure counts.
  void Fail(const absl::Status& status);
  absl::Status failure() const;
  // Waits for a failure; true if there is one before the deadline.
  bool AwaitFailure(absl::Duration deadline) const;
  // Calls `listener` on some thread once the job has failed, or at once if it has. Returns an id to
  // remove it by; after the removal it is neither called any more nor running.
  int AddFailureListener(std::function<void(const absl::Status&)> listener);
  void RemoveFailureListener(int id);

 private:
  StoreClient(const StoreClientOptions& options, Socket socket)
      : options_(options), socket_(std::move(socket)) {}
  // Waits for the store's welcome. Returns Unavailable if a retry may reach another store. The
  // store itself gives up at the deadline of joining, and knows which processes are missing, so
  // `limit` is longer.
  absl::Status AwaitWelcome(absl::Duration limit);
  absl::Status Prove(const Deadline& deadline);
  // Receives exactly `count` bytes. Returns Unavailable with the text `closed` if the connection
  // closes.
  absl::StatusOr<std::string> ReceiveBytes(size_t count, const Deadline& deadline,
                                           const std::string& closed);
  void Loop();
  void Handle(StoreMessage message);
  // Blocks until `done`, which is evaluated under mutex_, or the failure.
  template <typename Done>
  absl::Status Await(const Done& done, const std::string& what, absl::Duration deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes and returns the first value under this key.
  std::string Take(std::map<std::string, std::deque<std::string>>* from, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFailure(const absl::Status& status);
  absl::Status Send(const StoreMessage& message);
  absl::Status WriteFrame(const StoreMessage& message);
  absl::Status SendFrame(const StoreMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Handles the result of sending a message: a store that does not read is a failure.
  absl::Status Sent(const absl::Status& sent);
  void Beat();
  // Returns "rank 0 (pid 4711 on node1), the host of the job's store,".
  std::string StoreName() const;

  const StoreClientOptions options_;
  StoreMessage::Joined joined_;
  absl::Mutex write_mutex_;
  bool broken_ ABSL_GUARDED_BY(write_mutex_) = false;  // a message was sent only in part
  FrameWriter writer_ ABSL_GUARDED_BY(write_mutex_);
  Socket socket_;   // written under write_mutex_, read by the thread
  FrameReader in_;  // used by the thread
  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // One value for each waiting Get.
  std::map<std::string, std::deque<std::string>> values_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<std::string>> notes_ ABSL_GUARDED_BY(mutex_);  // not taken yet
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex notes_mutex_;  // held while handlers run
  std::map<std::string, std::function<void(const std::string&)>> note_handlers_
      ABSL_GUARDED_BY(notes_mutex_);
  absl::Mutex listeners_mutex_;  // held while listeners run
  std::map<int, std::function<void(const absl::Status&)>> listeners_
      ABSL_GUARDED_BY(listeners_mutex_);
  int next_listener_ ABSL_GUARDED_BY(listeners_mutex_) = 0;
  bool notified_ ABSL_GUARDED_BY(listeners_mutex_) = false;
  std::thread thread_;
};

// A barrier for all ranks of a job.

// Returns when all of `size` ranks have called it with this key, which is used once. The job's
// failure ends the wait. `why` completes the text of errors: "waited 5s for rank 3 to connect to".
// Sends `size` messages from each rank to the store.
absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

// The same, but each rank contributes a text. Returns all texts, by rank.
absl::StatusOr<std::vector<std::string>> ExchangeTexts(
    StoreClient* store, const std::string& key, int rank, int size, const std::string& text,
    const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CLIENT_H_
