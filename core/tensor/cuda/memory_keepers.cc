#include "core/tensor/cuda/memory_keepers.h"

#include <algorithm>

namespace dpipe::cuda {

void MemoryKeepers::Add(int gpu, MemoryKeeper* keeper) {
  absl::MutexLock lock(&mutex_);
  keepers_.emplace_back(gpu, keeper);
}

void MemoryKeepers::Remove(MemoryKeeper* keeper) {
  absl::MutexLock lock(&mutex_);
  keepers_.erase(std::remove_if(keepers_.begin(), keepers_.end(),
                                [keeper](const auto& each) { return each.second == keeper; }),
                 keepers_.end());
}

bool MemoryKeepers::ReleaseUnused(int gpu) {
  absl::MutexLock lock(&mutex_);
  bool more = false;
  for (const auto& [of, keeper] : keepers_) {
    if (of == gpu && keeper->ReleaseUnused()) more = true;
  }
  return more;
}

}  // namespace dpipe::cuda
