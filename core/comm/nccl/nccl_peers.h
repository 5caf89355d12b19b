// How the ranks of a job learn of each other's failures, and part.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_

#include <functional>

#include "core/base/status.h"

namespace dpipe {

// Thread-safe.
class NcclPeers {
 public:
  // What the others want of a rank. Both functions may be called by any thread.
  struct Member {
    std::function<void(const absl::Status&)> hear;  // of another rank's failure
    std::function<bool()> is_idle;                  // its GPU is through with all of its messages
  };

  virtual ~NcclPeers() = default;
  // From now on, until Leave returns, this rank hears of other ranks' failures; at once of one that
  // there is already.
  virtual void Join(Member member) = 0;
  // This rank has failed. Called at most once.
  virtual void Tell(const absl::Status& status) = 0;
  // NCCL says that a peer is gone. The failure that says which and why, where it comes to be known
  // within a moment; else OK.
  virtual absl::Status Cause() = 0;
  // This rank is idle and will abort its communicators, which takes away the buffers that other
  // ranks may still be reading. Returns when none is any more, or the job has failed.
  virtual void Leave() = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_PEERS_H_
