// Conversion between bf16 and fp32 of matrices whose rows may be apart.
#ifndef DPIPE_CORE_OPS_SUPPORT_CONVERT_H_
#define DPIPE_CORE_OPS_SUPPORT_CONVERT_H_

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Exact. Rows of `to` and `from` begin `to_stride` and `from_stride` elements apart.
void WidenRows(int64_t rows, int64_t columns, const Bf16* from, int64_t from_stride, float* to,
               int64_t to_stride);

// Rounds to nearest even; a NaN stays NaN.
void NarrowRows(int64_t rows, int64_t columns, const float* from, int64_t from_stride, Bf16* to,
                int64_t to_stride);

// Convert n adjacent elements, on the calling thread or on the device's threads.
void Widen(int64_t n, const Bf16* from, float* to);
void Widen(const Device& device, int64_t n, const Bf16* from, float* to);
void Narrow(int64_t n, const float* from, Bf16* to);
void Narrow(const Device& device, int64_t n, const float* from, Bf16* to);

// Convert whole tensors with the result of Tensor::To, vectorized and on the device's threads.
Tensor Widened(const Tensor& bf16);
Tensor Narrowed(const Tensor& fp32);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_CONVERT_H_
