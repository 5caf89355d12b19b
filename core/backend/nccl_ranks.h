// NCCL, if the program is built with CUDA. Only for connect_ranks.cc.
#ifndef DPIPE_CORE_BACKEND_NCCL_RANKS_H_
#define DPIPE_CORE_BACKEND_NCCL_RANKS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/tensor/device.h"

namespace dpipe::internal {

// Connects the GPUs of this process, one per rank.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectByNccl(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline);

// Connects a GPU of a job with several processes.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRankByNccl(StoreClient* store,
                                                                   const JobRank& rank);

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_BACKEND_NCCL_RANKS_H_
