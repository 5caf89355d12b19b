#include "core/backend/nccl_ranks.h"

#include "core/comm/nccl/connect_nccl.h"
#include "core/cuda/nccl_api.h"

namespace dpipe::internal {

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectByNccl(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline) {
  DPIPE_ASSIGN_OR_RETURN(const NcclApi* const api, LoadNccl());
  return CreateLocalNcclCommunicators(api, devices, deadline);
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRankByNccl(StoreClient* store,
                                                                   const JobRank& rank) {
  DPIPE_ASSIGN_OR_RETURN(const NcclApi* const api, LoadNccl());
  return ConnectNccl(api, store, rank);
}

}  // namespace dpipe::internal
