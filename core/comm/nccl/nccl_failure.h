// The failure of a rank's communicators: detection, effects and messages.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_FAILURE_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_FAILURE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {

// How the ranks of a job learn of each other's failures, and how they leave.
//
// Thread-safe.
class NcclPeers {
 public:
  // Functions that the others call on a rank. Any thread may call them.
  struct Member {
    std::function<void(const absl::Status&)> on_failure;  // receives another rank's failure
    std::function<bool()> is_idle;  // true if its GPU has completed all its messages
  };

  virtual ~NcclPeers() = default;
  // Subscribes this rank to other ranks' failures until Leave returns. If there already is one,
  // notifies the rank at once.
  virtual void Join(Member member) = 0;
  // Reports that this rank has failed. Called at most once.
  virtual void Tell(const absl::Status& status) = 0;
  // Called when NCCL reports that a peer is gone. Returns the failure that says which and why if it
  // becomes known within a moment; otherwise OK.
  virtual absl::Status Cause() = 0;
  // Called when this rank is idle and will abort its communicators, which frees the buffers that
  // other ranks may still be reading. Returns when no rank reads them any more, or the job has
  // failed.
  virtual void Leave() = 0;
};

// A failure is an error that NCCL reports, a deadline that passes, a call of Abort, or another
// rank's failure. Only the first one counts. It aborts all three communicators at the same time,
// and is reported to the other ranks unless it came from them. It is also stored in the device,
// whose results are then invalid. Its message says which rank waited for which operation, with
// which peer, and for how long:
//
//   rank 1 waited 2m for activation of micro-batch 3 from rank 0: rank 0 ran out of disk
//
// Thread-safe, except Watch and StopWatching, which only the rank's thread may call.
class NcclFailure {
 public:
  // `streams` outlive this.
  NcclFailure(Rank rank, cuda::CudaDevice* device, const RankStreams* streams,
              std::shared_ptr<NcclPeers> peers);
  ~NcclFailure() { StopWatching(); }

  // Starts to receive other ranks' failures.
  void JoinPeers();
  // Starts a thread that checks deadlines and NCCL's errors.
  void Watch(absl::Duration deadline);
  void StopWatching();

  // Reports that this rank has failed.
  void Fail(const absl::Status& status);
  // Returns OK until there is a failure.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the same for a call that begins or waits for `what`. If this rank waited for nothing
  // when another one failed, the message says that it waited for `what`.
  absl::Status StatusOf(const std::string& what) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the reason for an error `status`: the job's failure if there is one, else `status`.
  absl::Status Reason(const absl::Status& status);
  // Returns the same for an error that occurred while `what` was enqueued.
  absl::Status ReasonOf(const std::string& what, const absl::Status& status);
  // Prefixes the message: "rank 3 MESSAGE".
  absl::Status WithRankPrefix(const absl::Status& status) const;

 private:
  // Records another rank's failure.
  void OnPeerFailure(const absl::Status& status);
  // Returns false if there was a failure already. If `explained`, `status` says what this rank did.
  bool End(const absl::Status& status, bool explained) ABSL_LOCKS_EXCLUDED(mutex_);
  // Rejects further operations. Returns the operation that this rank waits for, if any.
  std::optional<CommStream::Wait> CloseStreams();
  absl::Status WaitFailed(const std::string& what, absl::Duration waited,
                          const absl::Status& reason) const;
  void WatchLoop(absl::Duration interval);

  const Rank rank_;
  cuda::CudaDevice& device_;
  const RankStreams& streams_;
  const std::shared_ptr<NcclPeers> peers_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool explained_ ABSL_GUARDED_BY(mutex_) = false;  // status_ says what this rank did
  std::atomic<bool> stopping_{false};
  std::thread watch_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_FAILURE_H_
