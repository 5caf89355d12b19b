// How ranks talk to each other, by their devices.
#ifndef DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
#define DPIPE_CORE_BACKEND_CONNECT_RANKS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store_client.h"
#include "core/tensor/device.h"

namespace dpipe {

// Connects ranks that are threads of this process; in rank order. CPUs and whatever else has host
// memory hand over references; so do ranks on one GPU, in the order of their streams; ranks with a
// GPU each use NCCL. FailedPrecondition where some ranks share a GPU and others do not, naming two
// devices; NotFound where NCCL is missing.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectRanks(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline);

// A ConnectJobRankFn: a rank of a job of several processes, whose ranks are all on CPUs (Gloo) or
// on a GPU each (NCCL).
absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRank(StoreClient* store,
                                                             const JobRank& rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
