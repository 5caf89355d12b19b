#include "core/backend/nccl_ranks.h"

namespace dpipe::internal {
namespace {

absl::Status NoNccl() {
  return absl::UnimplementedError("this program was built without CUDA, and so without NCCL");
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectByNccl(
    const std::vector<std::shared_ptr<Device>>&, absl::Duration) {
  return NoNccl();
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRankByNccl(StoreClient*, const JobRank&) {
  return NoNccl();
}

}  // namespace dpipe::internal
