// A device's memory and its statistics: one allocator per device.
#ifndef DPIPE_CORE_TENSOR_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_ALLOCATOR_H_

#include <cstdint>

namespace dpipe {

struct MemoryStats {
  int64_t allocated_bytes = 0;  // in live tensors at present
  int64_t peak_bytes = 0;       // maximum of allocated_bytes since ResetPeak
  int64_t reserved_bytes = 0;   // taken from the system, cached blocks included
};

// Thread-safe, because a tensor may be released by a rank other than the one that made it. On an
// asynchronous device a block is meant for work enqueued after Allocate, and Free takes effect when
// the work enqueued before it has finished.
class Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Returns at least `size_bytes` of uninitialised memory; aborts with the sizes if memory runs
  // out.
  virtual void* Allocate(int64_t size_bytes) = 0;
  // Probes for room. Returns null if memory has run out and the allocator can tell; otherwise a
  // block of uninitialised bytes, to be freed at once. The peak does not count the block.
  virtual void* AllocateIfRoom(int64_t size_bytes) { return Allocate(size_bytes); }
  // Frees a block; `size_bytes` must be the size that was requested.
  virtual void Free(void* data, int64_t size_bytes) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void ResetPeak() = 0;
  // Returns cached blocks to the system.
  virtual void ReleaseCache() = 0;
  // For tests: fills every block with ones, so that reads of unwritten memory show. All ones is NaN
  // in fp32 and bf16, and -1 in int32.
  virtual void set_poison(bool poison) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ALLOCATOR_H_
