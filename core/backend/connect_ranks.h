// Connects ranks by the transport that fits their devices.
#ifndef DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
#define DPIPE_CORE_BACKEND_CONNECT_RANKS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/tensor/device.h"

namespace dpipe {

// Connects ranks that are threads of this process; returns communicators in rank order. Ranks with
// host memory (CPUs and emulated devices) hand over references. So do ranks on one GPU, in the
// order of their streams. Ranks with one GPU each use NCCL. FailedPrecondition, naming two devices,
// if only some ranks share a GPU; NotFound if NCCL is missing.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectRanks(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline);

// A ConnectJobRankFn: connects a rank of a job of several processes. All its ranks are on CPUs
// (Gloo) or on one GPU each (NCCL).
absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRank(StoreClient* store,
                                                             const JobRank& rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
