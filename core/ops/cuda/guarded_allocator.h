// Memory in which whoever reads or writes beyond a block ends the process.
#ifndef DPIPE_CORE_OPS_CUDA_GUARDED_ALLOCATOR_H_
#define DPIPE_CORE_OPS_CUDA_GUARDED_ALLOCATOR_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/allocator.h"

namespace dpipe::ops::cuda {

// A block lies at the end of pages of its own, between two that must not be touched, aligned to 16
// bytes; the bytes that alignment leaves before and after it are checked when it is freed, and then
// its pages are gone.
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

#endif  // DPIPE_CORE_OPS_CUDA_GUARDED_ALLOCATOR_H_
