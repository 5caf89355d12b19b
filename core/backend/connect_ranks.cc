#include "core/backend/connect_ranks.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "core/backend/nccl_ranks.h"
#include "core/base/check.h"
#include "core/comm/gloo/gloo.h"
#include "core/comm/in_process.h"
#include "core/comm/peer_communicator.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectRanks(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline) {
  DPIPE_CHECK(!devices.empty());
  InProcessOptions options;
  options.deadline = deadline;
  if (devices[0]->has_host_memory()) {
    return CreateInProcessCommunicators(static_cast<int>(devices.size()), options);
  }
  std::map<int, const Device*> by_gpu;
  const Device* shares = nullptr;  // shares its GPU with an earlier rank
  for (const auto& device : devices) {
    const int gpu = cuda::CudaDeviceOf(*device).gpu().index;
    if (!by_gpu.emplace(gpu, device.get()).second) shares = device.get();
  }
  if (by_gpu.size() == 1) return CreatePeerCommunicators(devices, options);
  if (shares == nullptr) return internal::ConnectByNccl(devices, deadline);
  return absl::FailedPreconditionError(
      absl::StrCat("ranks lie on ", by_gpu.size(), " GPUs, but ", shares->name(),
                   " shares its GPU: each rank needs its own GPU, or all must share one"));
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectJobRank(StoreClient* store,
                                                             const JobRank& rank) {
  if (rank.device->has_host_memory()) return ConnectGloo(store, rank);
  return internal::ConnectJobRankByNccl(store, rank);
}

}  // namespace dpipe
