// An optimizer's work on many fp32 tensors. One launch handles as many tensors as fit into a
// kernel's arguments.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_OPTIMIZER_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_OPTIMIZER_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/optimizer/adamw_factors.h"

namespace dpipe::ops::cuda {

struct AdamWTensor {
  AdamWFactors factors;
  int64_t size;
  const float* grad;
  float* parameter;
  float* m;
  float* v;
};

// The maximum that fits into a kernel's arguments: 48 * 76 bytes of 4 KiB.
constexpr int kAdamWTensors = 48;

// Applies AdamW's update to the first `count` <= kAdamWTensors tensors.
void UpdateAdamW(const Stream& stream, const AdamWTensor* tensors, int count);

struct AdamWPredictTensor {
  int64_t size;
  float* parameter;
  const float* m;
  const float* v;
};

// 96 * 36 bytes of 4 KiB.
constexpr int kAdamWPredictTensors = 96;

// Updates the first `count` <= kAdamWPredictTensors parameters from constant moments.
void PredictAdamW(const Stream& stream, const AdamWFactors& factors,
                  const AdamWPredictTensor* tensors, int count);

struct SquaresTensor {
  int64_t size;
  const float* x;
};

// 192 * 20 bytes of 4 KiB.
constexpr int kSquaresTensors = 192;

// Returns the workspace of SumSquares for a tensor of that size, in numbers.
int64_t SquaresPartials(int64_t size);

// Computes sums[t], the sum of the squares of tensor t, for the first `count` <= kSquaresTensors
// tensors. Sums are in double, in an order that depends only on the tensor's size. `partial` is
// workspace: the total of SquaresPartials over all tensors.
void SumSquares(const Stream& stream, const SquaresTensor* tensors, int count, double* partial,
                double* sums);

// 8-bit moments, as in block_quantized.h: `block_size` numbers share a scale.
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

// Applies AdamW's update to the first `count` <= kAdamWInt8Tensors tensors.
void UpdateAdamWInt8(const Stream& stream, const AdamWInt8Tensor* tensors, int count);

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

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_OPTIMIZER_H_
