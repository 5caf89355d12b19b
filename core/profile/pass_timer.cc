#include "core/profile/pass_timer.h"

#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {

void EnqueueWait(Device* device, Nanos duration_ns) {
  if (duration_ns <= 0 || device->kind() != DeviceKind::kCuda || device->has_host_memory()) return;
  cuda::CudaDeviceOf(*device).Delay(duration_ns);
}

}  // namespace dpipe
