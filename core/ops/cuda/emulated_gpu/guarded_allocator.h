// An allocator that ends the process on accesses beyond a block.
#ifndef DPIPE_CORE_OPS_CUDA_EMULATED_GPU_GUARDED_ALLOCATOR_H_
#define DPIPE_CORE_OPS_CUDA_EMULATED_GPU_GUARDED_ALLOCATOR_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/allocator.h"

namespace dpipe::ops::cuda {

// A block has its own pages, between two that must not be touched. It is at their end, aligned to
// 16 bytes. The padding bytes before and after it are checked when it is freed. Its pages are then
// unmapped.
class GuardedAllocator : public Allocator {
 public:
  void* Allocate(int64_t size_bytes) override;
  void Free(void* data, int64_t size_bytes) override;
  MemoryStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override {}
  void set_poison(bool poison) override { poison_ = poison; }

 private:
  mutable absl::Mutex mutex_;
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
  bool poison_ = false;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_EMULATED_GPU_GUARDED_ALLOCATOR_H_
