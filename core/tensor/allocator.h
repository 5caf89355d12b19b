// Where a device's memory comes from, with statistics: one allocator a device.
#ifndef DPIPE_CORE_TENSOR_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_ALLOCATOR_H_

#include <cstdint>

namespace dpipe {

struct MemoryStats {
  int64_t allocated_bytes = 0;  // in live tensors now
  int64_t peak_bytes = 0;       // the most of that since ResetPeak
  int64_t reserved_bytes = 0;   // taken from the system, cached blocks included
};

// Thread-safe, since a tensor may be released by a rank other than the one that made it. On a
// device that runs asynchronously a block is for the work that is enqueued after Allocate, and Free
// counts from the end of the work that is enqueued before it.
class Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // At least `size_bytes`, uninitialised; aborts where there is no more, with the sizes.
  virtual void* Allocate(int64_t size_bytes) = 0;
  // To find out whether there is room: null where there is none and that can be told. A block of
  // uninitialised bytes, to be freed at once: the peak does not count it.
  virtual void* AllocateIfRoom(int64_t size_bytes) { return Allocate(size_bytes); }
  // `size_bytes` as it was requested.
  virtual void Free(void* data, int64_t size_bytes) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void ResetPeak() = 0;
  // Gives cached blocks back to the system.
  virtual void ReleaseCache() = 0;
  // For tests: every block handed out is filled with ones, which is NaN in fp32 and bf16 and -1 in
  // int32, so that reading what was never written shows.
  virtual void set_poison(bool poison) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ALLOCATOR_H_
