// GPUs, the division of their multiprocessors into green contexts, and selection of the context
// that is current during a call of the runtime driver.
#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

absl::StatusOr<CUcontext> RuntimeDriver::Primary(int gpu) {
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (const auto it = primaries_.find(gpu); it != primaries_.end()) return it->second;
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr, primary = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  DPIPE_RUNTIME(cudaSetDevice(gpu));
  DPIPE_RUNTIME(cudaFree(nullptr));  // creates the context
  DPIPE_DRIVER(cuCtxGetCurrent(&primary));
  if (before != nullptr) DPIPE_DRIVER(cuCtxSetCurrent(before));
  absl::MutexLock lock(&mutex_);
  primaries_[gpu] = primary;
  return primary;
}

absl::StatusOr<CUcontext> RuntimeDriver::Own(const Context& context) {
  if (context.green == nullptr) return Primary(context.gpu);
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext own;
  DPIPE_DRIVER(cuCtxFromGreenCtx(&own, static_cast<CUgreenCtx>(context.green)));
  return own;
}

absl::Status RuntimeDriver::MakeCurrent(const Context& context) {
  if (context.green == nullptr) {
    DPIPE_RUNTIME(cudaSetDevice(context.gpu));
    return absl::OkStatus();
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUcontext own, Own(context));
  DPIPE_DRIVER(cuCtxSetCurrent(own));
  return absl::OkStatus();
}

void RuntimeDriver::Within(const Context& context, const std::function<void()>& work) {
  const absl::StatusOr<CUcontext> own = Own(context);
  bool called = false;
  WithContext({context.gpu, own.ok() ? *own : nullptr}, [&] {
    called = true;
    work();
    return absl::OkStatus();
  }).IgnoreError();
  if (!called) work();
}

absl::Status DriverStatus(const DriverApi& api, CUresult result, absl::string_view call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &text);
  const auto code = result == CUDA_ERROR_NOT_SUPPORTED ? absl::StatusCode::kUnimplemented
                                                       : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(call, ": ", name != nullptr ? name : "unknown error", ": ",
                                         text != nullptr ? text : ""));
}

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
