// AdamW over many tensors with one launch.
#ifndef DPIPE_CORE_OPS_CUDA_ADAMW_H_
#define DPIPE_CORE_OPS_CUDA_ADAMW_H_

#include <cstdint>

#include "core/ops/adamw_factors.h"
#include "core/ops/cuda/kernel.h"

namespace dpipe::ops::cuda {

struct AdamWTensor {
  AdamWFactors factors;
  int64_t size;
  const float* grad;
  float* parameter;
  float* m;
  float* v;
};

// As many as a kernel's arguments have room for: 48 * 72 bytes of 4 KiB.
constexpr int kAdamWTensors = 48;

// adamw.h's update of the first `count` <= kAdamWTensors tensors.
void UpdateAdamW(const Stream& stream, const AdamWTensor* tensors, int count);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_ADAMW_H_
