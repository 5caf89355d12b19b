#include "core/backend/nccl_ranks.h"

#include "core/comm/nccl/nccl_communicator.h"
#include "core/cuda/nccl_api.h"

namespace dpipe::internal {

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectByNccl(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline) {
  DPIPE_ASSIGN_OR_RETURN(const NcclApi* const api, LoadNccl());
  return CreateLocalNcclCommunicators(api, devices, deadline);
}

}  // namespace dpipe::internal
