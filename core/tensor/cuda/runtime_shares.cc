// GPUs, and the division of their multiprocessors into green contexts.
#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

absl::StatusOr<std::vector<Gpu>> RuntimeDriver::Gpus() {
  DPIPE_ASSIGN_OR_RETURN(const int count, CountGpus());
  std::vector<Gpu> gpus(count);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    DPIPE_RUNTIME(cudaGetDeviceProperties(&properties, i));
    char pci_bus_id[32] = "";
    DPIPE_RUNTIME(cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), i));
    gpus[i] = {i,
               properties.name,
               properties.major,
               properties.minor,
               properties.multiProcessorCount,
               static_cast<int64_t>(properties.totalGlobalMem),
               pci_bus_id};
  }
  return gpus;
}

absl::StatusOr<CUdevResource> RuntimeDriver::MultiprocessorsOf(const DriverApi* api, int gpu) {
  DPIPE_RETURN_IF_ERROR(Primary(gpu).status());  // shared by all green contexts
  CUdevice device;
  DPIPE_DRIVER(cuDeviceGet(&device, gpu));
  CUdevResource all;
  DPIPE_DRIVER(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  return all;
}

absl::StatusOr<MultiprocessorRules> RuntimeDriver::Rules(int gpu) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  return MultiprocessorRules{static_cast<int>(all.sm.smCount),
                             static_cast<int>(all.sm.minSmPartitionSize),
                             static_cast<int>(all.sm.smCoscheduledAlignment)};
}

absl::StatusOr<int> RuntimeDriver::NumShares(int gpu, int multiprocessors) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  unsigned groups = 0;
  DPIPE_DRIVER(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, multiprocessors));
  return static_cast<int>(groups);
}

absl::StatusOr<std::vector<Context>> RuntimeDriver::Divide(int gpu, int count,
                                                           int multiprocessors) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  CUdevice device;
  DPIPE_DRIVER(cuDeviceGet(&device, gpu));
  std::vector<CUdevResource> shares(count);
  unsigned groups = count;
  CUdevResource rest;
  DPIPE_DRIVER(
      cuDevSmResourceSplitByCount(shares.data(), &groups, &all, &rest, 0, multiprocessors));
  if (static_cast<int>(groups) != count) {
    return absl::InternalError(absl::StrCat("GPU ", gpu, ": requested ", count, " shares of ",
                                            multiprocessors, " multiprocessors, but CUDA made ",
                                            groups));
  }
  std::vector<Context> contexts;
  const auto add = [&](CUdevResource& share) -> absl::Status {
    CUdevResourceDesc description;
    DPIPE_DRIVER(cuDevResourceGenerateDesc(&description, &share, 1));
    CUgreenCtx green;
    DPIPE_DRIVER(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    contexts.push_back({gpu, static_cast<int>(share.sm.smCount), green});
    return absl::OkStatus();
  };
  for (CUdevResource& share : shares) {
    const absl::Status added = add(share);
    if (added.ok()) continue;
    for (const Context& made : contexts) {
      api->cuGreenCtxDestroy(static_cast<CUgreenCtx>(made.green));
    }
    return added;
  }
  return contexts;
}

}  // namespace dpipe::cuda
