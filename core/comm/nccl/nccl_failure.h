// The failure of a rank's communicators: how it is noticed, what it ends, and what is said of it.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_FAILURE_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_FAILURE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/nccl/nccl_peers.h"
#include "core/comm/nccl/rank_streams.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {

// A failure is an error that NCCL reports, a deadline that passes, a call of Abort, or another
// rank's failure. The first one counts: it aborts all three communicators at the same time, is kept
// by the device, whose results are worth nothing then, and is told to the other ranks unless it
// came from them. It says which rank waited for which operation, with which peer, and for how long:
//
//   rank 1 waited 2m for activation of micro-batch 3 from rank 0: rank 0 ran out of disk
//
// Thread-safe, except Watch and StopWatching, which belong to the rank's thread.
class NcclFailure {
 public:
  // `streams` outlive the failure.
  NcclFailure(Rank rank, cuda::CudaDevice* device, const RankStreams* streams,
              std::shared_ptr<NcclPeers> peers);
  ~NcclFailure() { StopWatching(); }

  // Hears of other ranks' failures from now on.
  void JoinPeers();
  // Looks after deadlines and NCCL's errors from now on, on a thread.
  void Watch(absl::Duration deadline);
  void StopWatching();

  // This rank has failed.
  void Fail(const absl::Status& status);
  // OK until a failure.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a call that begins or waits for `what`: where the rank waited for nothing when
  // others failed, this is what it would have waited for.
  absl::Status StatusOf(const std::string& what) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Why something has failed with `status`: because the job had, or for that reason itself.
  absl::Status Reason(const absl::Status& status);
  // The same for an error met while `what` was enqueued.
  absl::Status ReasonOf(const std::string& what, const absl::Status& status);
  // "rank 3 MESSAGE".
  absl::Status OfThisRank(const absl::Status& status) const;

 private:
  // Another rank has failed.
  void Hear(const absl::Status& status);
  // False where there was a failure already. `explained`: `status` says what this rank did.
  bool End(const absl::Status& status, bool explained) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing can be enqueued from now on. What this rank waits for, if it waits for anything.
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
