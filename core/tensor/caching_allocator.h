// A caching allocator for host memory.
#ifndef DPIPE_CORE_TENSOR_CACHING_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_CACHING_ALLOCATOR_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/allocator.h"

namespace dpipe {

// Blocks are 64-byte aligned. Freed blocks are cached by size, so that a repeated step takes
// nothing from the operating system. If the system runs out of memory, the cache is released before
// the next try.
class CachingAllocator : public Allocator {
 public:
  CachingAllocator() = default;
  ~CachingAllocator() override;

  void* Allocate(int64_t size_bytes) override;
  void Free(void* data, int64_t size_bytes) override;
  MemoryStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override;
  void set_poison(bool poison) override { poison_ = poison; }

 private:
  static int64_t RoundUp(int64_t size_bytes);

  mutable absl::Mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mutex_);
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
  bool poison_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_CACHING_ALLOCATOR_H_
