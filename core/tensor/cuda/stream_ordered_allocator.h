// A GPU's memory, handed out in the order of one stream.
#ifndef DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/allocator.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Blocks come from a pool of the driver that keeps what is freed: the same step repeated takes
// nothing from the system. A block that other streams use (AddUse) goes back to the pool only when
// they are done with it, which is looked for whenever memory is asked for; nobody waits, unless
// memory is short.
class StreamOrderedAllocator : public Allocator {
 public:
  // `driver` and `stream` outlive the allocator, which owns `pool`. `name` is the device's.
  StreamOrderedAllocator(Driver* driver, Pool pool, Stream stream, std::string name);
  // What is still allocated is lost to the pool, which lives on until it is freed.
  ~StreamOrderedAllocator() override;

  void* Allocate(int64_t size_bytes) override;
  void Free(void* data, int64_t size_bytes) override;
  MemoryStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override;
  void set_poison(bool poison) override { poison_ = poison; }

  // The block `data` is in use, by another stream, until `event` is done; owned from here on. The
  // block may have been freed already only if Free has not returned.
  void AddUse(void* data, Event event);

 private:
  struct Block {
    void* data = nullptr;
    int64_t size_bytes = 0;
    std::vector<Event> uses;
  };

  absl::StatusOr<void*> TryAllocate(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the blocks whose uses are done; `wait`: all of them, when they are.
  void Collect(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool UsesDone(bool wait, Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Events that are done would only pile up on a long-lived block.
  void DropDoneUses(std::vector<Event>* uses) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Driver* const driver_;
  const Pool pool_;
  const Stream stream_;
  const std::string name_;
  mutable absl::Mutex mutex_;
  std::unordered_map<void*, std::vector<Event>> uses_ ABSL_GUARDED_BY(mutex_);  // of live blocks
  std::vector<Block> leaving_ ABSL_GUARDED_BY(mutex_);  // freed, but still in use elsewhere
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);           // but for reserved_bytes
  bool poison_ = false;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_
