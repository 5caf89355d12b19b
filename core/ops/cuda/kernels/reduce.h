// Sums over a warp and over a block, in an order independent of timing: lanes pairwise, by
// distances that halve from 16 to 1, then the warps in order.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_REDUCE_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_REDUCE_H_

#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"

namespace dpipe::ops::cuda {

// Returns the sum over the lanes of a warp, with the same bits in each.
template <typename T>
DPIPE_KERNEL_FUNCTION T WarpSum(T value) {
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) value += LaneXor(value, mask);
  return value;
}

// Returns the maximum, ignoring NaNs.
DPIPE_KERNEL_FUNCTION float WarpMax(float value) {
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) value = fmaxf(value, LaneXor(value, mask));
  return value;
}

// Returns the sum over a block's threads in each of them.
template <typename T>
DPIPE_KERNEL_FUNCTION T BlockSum(T value) {
  DPIPE_SHARED(T, of_warp, kWarps);
  value = WarpSum(value);
  if (Thread() % kWarp == 0) of_warp[Thread() / kWarp] = value;
  Barrier();
  T sum = of_warp[0];
  for (uint32_t w = 1; w < kWarps; ++w) sum += of_warp[w];
  Barrier();  // before anyone overwrites it
  return sum;
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_REDUCE_H_
