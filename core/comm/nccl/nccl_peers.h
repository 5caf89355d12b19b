// How the ranks of a job learn of each other's failures, and how they leave.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_

#include <functional>

#include "core/base/status.h"

namespace dpipe {

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

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_
