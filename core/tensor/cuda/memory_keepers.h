// Owners of unused GPU memory that others could use.
#ifndef DPIPE_CORE_TENSOR_CUDA_MEMORY_KEEPERS_H_
#define DPIPE_CORE_TENSOR_CUDA_MEMORY_KEEPERS_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dpipe::cuda {

class MemoryKeeper {
 public:
  virtual ~MemoryKeeper() = default;
  // Returns unused memory to the GPU without waiting. Any thread may call this. Returns true if
  // more memory will become free when the GPU has finished its enqueued work.
  virtual bool ReleaseUnused() = 0;
};

// Thread-safe.
class MemoryKeepers {
 public:
  void Add(int gpu, MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // After this returns, no call of the keeper is in progress or will follow.
  void Remove(MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls ReleaseUnused of all keepers of that GPU, one after another. Returns true if any of them
  // will have more. The calling thread must hold no lock that a keeper takes.
  bool ReleaseUnused(int gpu) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<int, MemoryKeeper*>> keepers_ ABSL_GUARDED_BY(mutex_);  // GPU and keeper
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_MEMORY_KEEPERS_H_
