#include "core/tensor/cuda/driver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"

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

std::string DescribeGpu(const Gpu& gpu) {
  return absl::StrCat("GPU ", gpu.index, " (", gpu.name, ", compute capability ",
                      gpu.capability_major, ".", gpu.capability_minor, ", ", gpu.multiprocessors,
                      " multiprocessors, ", FormatBytes(gpu.memory_bytes), ")");
}

absl::StatusOr<int> MultiprocessorsOfShare(Driver* driver, const Gpu& gpu, int count) {
  if (count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("requested ", count, " virtual GPUs; at least 1 is needed"));
  }
  DPIPE_ASSIGN_OR_RETURN(const MultiprocessorRules rules, driver->Rules(gpu.index));
  const int step = std::max(1, rules.multiple_of);
  const int smallest = std::max(step, (rules.least + step - 1) / step * step);
  for (int share = rules.total / count / step * step; share >= smallest; share -= step) {
    DPIPE_ASSIGN_OR_RETURN(const int shares, driver->NumShares(gpu.index, share));
    if (shares >= count) return share;
  }
  DPIPE_ASSIGN_OR_RETURN(const int max_shares, driver->NumShares(gpu.index, smallest));
  return absl::InvalidArgumentError(absl::StrCat(
      "requested ", count, " virtual GPUs, but ", DescribeGpu(gpu), " can be divided into at most ",
      max_shares, ", of ", smallest, " multiprocessors each"));
}

}  // namespace dpipe::cuda
