// A CUDA device without a GPU.
#ifndef DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATED_DEVICE_H_
#define DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATED_DEVICE_H_

#include <memory>

#include "core/ops/cuda/emulated_gpu/guarded_allocator.h"
#include "core/tensor/cpu_device.h"

namespace dpipe::ops::cuda {

// Runs the CUDA backend's own kernels on the calling thread (emulation.h), and the work of
// libraries by its definition. Slow; for tests. Its memory is the host's but is reported as device
// memory, and ends in pages that must not be touched.
class EmulatedDevice : public CpuDevice {
 public:
  EmulatedDevice()
      : CpuDevice(DeviceKind::kCuda, "cuda-emulated", /*cores=*/{}, /*num_threads=*/1) {}

  std::shared_ptr<Device> MakeSibling() const override {
    return std::make_shared<EmulatedDevice>();
  }
  Allocator& allocator() override { return allocator_; }
  bool has_host_memory() const override { return false; }

 private:
  GuardedAllocator allocator_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATED_DEVICE_H_
