// The kernel that decodes weights of block_codes.h on a GPU.
#ifndef DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_KERNEL_H_
#define DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_KERNEL_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"

namespace dpipe::ops::cuda {

// to[i] = codes[i] * scales[i / block] for n numbers; `block` is a multiple of 8. T: float or Bf16.
// Codes are aligned to 8 bytes.
template <typename T>
void DecodeBlocks(const Stream& stream, int64_t n, int64_t block, const int8_t* codes,
                  const float* scales, T* to);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_KERNEL_H_
