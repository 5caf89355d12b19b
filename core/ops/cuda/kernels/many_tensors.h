// Elementwise work on many fp32 tensors. One launch handles as many tensors as fit into a kernel's
// arguments.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_MANY_TENSORS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_MANY_TENSORS_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"

namespace dpipe::ops::cuda {

struct AxpbyTensor {
  int64_t size;
  const float* x;
  float* y;
};

// 128 * 28 bytes of 4 KiB.
constexpr int kAxpbyTensors = 128;

// y = a x + b y for the first `count` <= kAxpbyTensors tensors.
void AxpbyAll(const Stream& stream, float a, float b, const AxpbyTensor* tensors, int count);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_MANY_TENSORS_H_
