// Host execution of kernels for a driver that emulates a GPU.
#ifndef DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_
#define DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_

#include <cstddef>
#include <functional>
#include <type_traits>

namespace dpipe::cuda {

// Runs kernels on the host when their stream reaches them. Plain C++, because nvcc compiles it too.
class HostQueue {
 public:
  virtual ~HostQueue() = default;
  // Enqueues `kernel` on `stream`, a cudaStream_t. `arguments` are the kernel's arguments. Each of
  // their 8-byte words may be the address of memory that the kernel uses, so padding must be zero.
  virtual void EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                             size_t size_bytes) = 0;
};

// Enqueues run(arguments).
template <typename Arguments, typename Run>
void EnqueueWith(HostQueue* queue, void* stream, const Arguments& arguments, const Run& run) {
  static_assert(std::is_trivially_copyable<Arguments>::value, "a kernel's arguments are bytes");
  Arguments copy = arguments;
#if __has_builtin(__builtin_clear_padding)  // not in clang 14
  __builtin_clear_padding(&copy);           // stale padding may look like an address
#endif
  queue->EnqueueKernel(
      stream, [arguments, run] { run(arguments); }, &copy, sizeof(copy));
}

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_HOST_QUEUE_H_
