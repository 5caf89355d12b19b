// Asynchronous copies to shared memory. They are in flight from the moment of the request, and need
// no registers until they are used. Plain loads, in contrast, are scheduled by the compiler: if
// registers are scarce, it places them after the wait for other loads.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_ASYNC_COPY_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_ASYNC_COPY_H_

#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {

// A thread's copies, at most kMax of them in flight. After waiting for a copy, its own thread sees
// the data; other threads do so after a Barrier().
//
//   Copy: copies the aligned 16 bytes at `from`, in the open group.
//   EndGroup: closes the group, which may be empty, and opens the next one.
//   Wait: blocks until all closed groups except the last kLeft are complete.
//
// In emulation, data is copied only in Wait.
template <int kMax>
class AsyncCopies {
 public:
#if defined(__CUDA_ARCH__)
  __device__ __forceinline__ void Copy(const void* from, Words* to_shared) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"l"(__cvta_generic_to_shared(to_shared)),
        "l"(__cvta_generic_to_global(from))
        : "memory");
  }
  __device__ __forceinline__ void EndGroup() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int kLeft>
  __device__ __forceinline__ void Wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
  }
#else
  DPIPE_KERNEL_FUNCTION void Copy(const void* from, Words* to_shared) {
    DPIPE_CHECK(end_ - begin_ < kMax) << "more copies than " << kMax;
    copies_[end_++ % kMax] = {from, to_shared, group_};
  }
  DPIPE_KERNEL_FUNCTION void EndGroup() { ++group_; }
  template <int kLeft>
  DPIPE_KERNEL_FUNCTION void Wait() {
    for (; begin_ < end_ && copies_[begin_ % kMax].group + kLeft < group_; ++begin_) {
      *copies_[begin_ % kMax].to = LoadWords(copies_[begin_ % kMax].from);
    }
  }

 private:
  struct OneCopy {
    const void* from;
    Words* to;
    int group;
  };
  OneCopy copies_[kMax];
  int begin_ = 0, end_ = 0;  // of the copies in flight, counted from the first
  int group_ = 0;            // the open group
#endif
};

// Fetches the data at p, which will be loaded soon, into the multiprocessors' shared cache.
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ void Prefetch(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}
#else
DPIPE_KERNEL_FUNCTION void Prefetch(const void*) {}
#endif

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_ASYNC_COPY_H_
