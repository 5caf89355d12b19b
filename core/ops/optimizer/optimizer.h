// The work of an optimizer on many fp32 tensors of one device: AdamW (Loshchilov and Hutter, arXiv
// 1711.05101), the functions that gradient clipping by the global norm needs, and averages of
// weights. On CUDA devices one launch handles many tensors.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_H_
#define DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/ops/optimizer/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct AdamWParams {
  float learning_rate = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 1e-2f;
};

// One update with the arithmetic of torch.optim.AdamW, where g = grad_scale * grad and step starts
// at 1:
//   p *= 1 - learning_rate * weight_decay
//   m += (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// All tensors are fp32 and of one shape. Elementwise, so the result does not depend on how
// parameters are split into tensors.
absl::Status AdamWStep(const AdamWParams& params, int64_t step, float grad_scale,
                       const Tensor& grad, Tensor* parameter, Tensor* m, Tensor* v);

// The same for many tensors on one device, each with its own parameters. On CUDA devices one launch
// handles several dozen of them.
struct AdamWUpdate {
  AdamWParams params;
  Tensor grad, parameter, m, v;
};
absl::Status AdamWSteps(absl::Span<const AdamWUpdate> updates, int64_t step, float grad_scale);

// Changes parameters as `times` updates without weight decay would if the moments stayed as they
// are after update `step`. (XPipe, arXiv 1911.04610, eq. 4)
struct AdamWPrediction {
  Tensor parameter, m, v;
};
absl::Status AdamWPredict(const AdamWParams& params, int64_t step, int times,
                          absl::Span<const AdamWPrediction> predictions);

// AdamWSteps with 8-bit moments, which are dequantized and quantized again block by block. Stores m
// and the root of v: v itself spans twice as many decades, more than the codes cover, and Adam
// would divide by zero if v were rounded to 0.
struct AdamWInt8Update {
  AdamWParams params;
  Tensor grad, parameter;
  BlockQuantized *m, *root_v;  // signed and unsigned; both of one block size
};
absl::Status AdamWInt8Steps(absl::Span<const AdamWInt8Update> updates, int64_t step,
                            float grad_scale);

// Returns the sum of the squares of each fp32 tensor, in double. The order of a sum depends only on
// the tensor's size. All tensors are on one device. On a CUDA device this takes a few launches and
// one wait. Sums of several tensors must be added in one agreed order (see GlobalNorm). The norm
// then has the same bits for every distribution of the parameters over stages.
absl::StatusOr<std::vector<double>> SumsOfSquares(absl::Span<const Tensor> tensors);
absl::StatusOr<double> SumOfSquares(const Tensor& x);

// Returns the square root of the total of `sums_of_squares`, added in the given order (the
// model's).
double GlobalNorm(absl::Span<const double> sums_of_squares);

// Returns the gradients' factor for this norm, min(1, max_norm / (norm + 1e-6)), as in
// torch.nn.utils.clip_grad_norm_. Returns NaN if the norm is not finite, to expose the error, and 1
// if max_norm <= 0.
float ClipScale(double norm, double max_norm);

// Computes y = a x + b y for each pair: moving averages of weights, sums of their changes.
struct AxpbyPair {
  Tensor x, y;  // of one shape
};
absl::Status Axpby(float a, float b, absl::Span<const AxpbyPair> pairs);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_H_
