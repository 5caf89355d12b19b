// Kernels for positions of tokens, by sinusoids that they compute themselves. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_POSITIONS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_POSITIONS_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// rotary_embedding.h.
struct RotaryShape {
  int64_t batch, tokens, heads;
  int64_t text_tokens, image_columns;
  int64_t pairs[3];  // per axis
  double log_theta;
  float sign;  // of the angles
};
// x and y: [batch, tokens, heads, 2 * (sum of pairs)].
template <typename T>
void Rotate(const Stream& stream, const RotaryShape& shape, const T* x, T* y);

// position_table.h.
struct PositionGrid {
  int64_t batch, rows, columns;
  int64_t top, left;  // of the image in the table
  int64_t quarter;    // a token has 4 * quarter elements
  float tokens_per_position;
  double log_rate;  // of frequency k + 1 to frequency k
};
// y = x + table; both are [batch, rows, columns, 4 * quarter].
template <typename T>
void AddPositions(const Stream& stream, const PositionGrid& grid, const T* x, T* y);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_POSITIONS_H_
