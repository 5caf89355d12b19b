// A caching allocator with statistics, one a device.
#ifndef DPIPE_CORE_TENSOR_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_ALLOCATOR_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dpipe {

struct MemoryStats {
  int64_t allocated_bytes = 0;  // in live tensors now
  int64_t peak_bytes = 0;       // the most of that since ResetPeak
  int64_t reserved_bytes = 0;   // taken from the operating system, cached blocks included
};

// Host memory, 64-byte aligned. Freed blocks are kept by size and handed out again: the same step
// repeated takes nothing from the operating system. Thread-safe, since a tensor may be released by
// a rank other than the one that made it.
class CachingAllocator {
 public:
  CachingAllocator() = default;
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // At least `size_bytes`, uninitialised; aborts where the operating system has no more.
  void* Allocate(int64_t size_bytes);
  void Free(void* data, int64_t size_bytes);
  MemoryStats stats() const;
  void ResetPeak();
  // Gives cached blocks back to the operating system.
  void ReleaseCache();
  // For tests: every block handed out is filled with NaN patterns, so that reading what was never
  // written shows.
  void set_poison(bool poison) { poison_ = poison; }

 private:
  static int64_t RoundUp(int64_t size_bytes);

  mutable absl::Mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mutex_);
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
  bool poison_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ALLOCATOR_H_
