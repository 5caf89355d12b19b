// Runs independent pieces of an op's work on the device's threads.
#ifndef DPIPE_CORE_OPS_SUPPORT_PARALLEL_H_
#define DPIPE_CORE_OPS_SUPPORT_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "core/tensor/device.h"

namespace dpipe::ops {

// Calls f(i) for i in [0, n). Pieces must not write to shared memory, so that the result does not
// depend on the number of threads.
template <typename F>
void ParallelFor(const Device& device, int64_t n, const F& f) {
  if (device.num_threads() == 1 || n == 1) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) f(i);
}

// Calls f(begin, end) over [0, n) in runs of 16384 elements. The bf16 input and output of a run, 32
// KiB each, fit in an L2 cache, and starting a run costs nothing compared with its work.
template <typename F>
void ParallelRuns(const Device& device, int64_t n, const F& f) {
  constexpr int64_t kRun = 16384;
  ParallelFor(device, (n + kRun - 1) / kRun,
              [&](int64_t i) { f(i * kRun, std::min(n, (i + 1) * kRun)); });
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_PARALLEL_H_
