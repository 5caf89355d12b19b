// AdamW with 8-bit moments.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_INT8_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_INT8_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/optimizer/adamw_factors.h"

namespace dpipe::ops::cuda {

// As in block_quantized.h: `block_size` numbers share a scale.
struct AdamWInt8Tensor {
  AdamWFactors factors;
  int64_t size;
  int64_t block_size;
  const float* grad;
  float* parameter;
  uint8_t *m_codes, *root_codes;
  float *m_scales, *root_scales;
};

// 38 * 100 bytes of 4 KiB.
constexpr int kAdamWInt8Tensors = 38;

// Applies adamw.h's update to the first `count` <= kAdamWInt8Tensors tensors.
void UpdateAdamWInt8(const Stream& stream, const AdamWInt8Tensor* tensors, int count);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_INT8_H_
