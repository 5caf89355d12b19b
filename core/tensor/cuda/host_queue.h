// Kernels for a driver that only stands in for a GPU.
#ifndef DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_
#define DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_

#include <cstddef>
#include <functional>

namespace dpipe::cuda {

// Runs kernels on the host when a stream gets to them. Plain C++, since nvcc compiles it, too.
class HostQueue {
 public:
  virtual ~HostQueue() = default;
  // Enqueues `kernel` on `stream`, a cudaStream_t. `arguments` are the kernel's, of which every
  // 8-byte word may be an address of memory that it uses.
  virtual void EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                             size_t size_bytes) = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_
