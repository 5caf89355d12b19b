// What an optimizer does to many fp32 tensors, with one launch for as many as its arguments hold.
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

// As many as a kernel's arguments have room for: 48 * 76 bytes of 4 KiB.
constexpr int kAdamWTensors = 48;

// adamw.h's update of the first `count` <= kAdamWTensors tensors.
void UpdateAdamW(const Stream& stream, const AdamWTensor* tensors, int count);

struct AdamWPredictTensor {
  int64_t size;
  float* parameter;
  const float* m;
  const float* v;
};

// 96 * 36 bytes of 4 KiB.
constexpr int kAdamWPredictTensors = 96;

// Updates the first `count` <= kAdamWPredictTensors parameters from moments that stay.
void PredictAdamW(const Stream& stream, const AdamWFactors& factors,
                  const AdamWPredictTensor* tensors, int count);

struct SquaresTensor {
  int64_t size;
  const float* x;
};

// 192 * 20 bytes of 4 KiB.
constexpr int kSquaresTensors = 192;

// Numbers that SumSquares works with for a tensor of that size.
int64_t SquaresPartials(int64_t size);

// sums[t] = the sum of the squares of tensor t, in double and in an order that depends on its size
// alone, of the first `count` <= kSquaresTensors tensors. partial: as many numbers as
// SquaresPartials of all of them add up to; overwritten.
void SumSquares(const Stream& stream, const SquaresTensor* tensors, int count, double* partial,
                double* sums);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_ADAMW_H_
