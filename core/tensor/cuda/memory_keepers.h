// Who keeps memory of a GPU for later that others could use now.
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
  // Gives back to the GPU what nobody uses, and waits for nothing. By any thread. Whether there
  // will be more when the GPU has done what is enqueued.
  virtual bool ReleaseUnused() = 0;
};

// Thread-safe.
class MemoryKeepers {
 public:
  void Add(int gpu, MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // When it returns nobody asks the keeper for anything.
  void Remove(MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // Has all of that GPU give up what they do not use, one after another; whether one of them will
  // have more. The calling thread holds no lock that one of them takes.
  bool ReleaseUnused(int gpu) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<int, MemoryKeeper*>> keepers_ ABSL_GUARDED_BY(mutex_);  // with their GPUs
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_MEMORY_KEEPERS_H_
