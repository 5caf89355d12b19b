// Selection of the context that is current during a call of the runtime driver.
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

}  // namespace dpipe::cuda
