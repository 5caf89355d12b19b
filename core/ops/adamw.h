// AdamW (Loshchilov and Hutter, arXiv 1711.05101) over fp32 parameters, and what gradient clipping
// by the global norm needs.
#ifndef DPIPE_CORE_OPS_ADAMW_H_
#define DPIPE_CORE_OPS_ADAMW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/ops/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct AdamWParams {
  float learning_rate = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 1e-2f;
};

// One update, the arithmetic of torch.optim.AdamW, with g = grad_scale * grad and step from 1:
//   p *= 1 - learning_rate * weight_decay
//   m += (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// All fp32, of one shape. Elementwise: the result does not depend on how tensors are cut.
absl::Status AdamWStep(const AdamWParams& params, int64_t step, float grad_scale,
                       const Tensor& grad, Tensor* parameter, Tensor* m, Tensor* v);

// The same of many tensors, each with its own parameters, in one launch for some dozens of them on
// CUDA devices. All on one device.
struct AdamWUpdate {
  AdamWParams params;
  Tensor grad, parameter, m, v;
};
absl::Status AdamWSteps(absl::Span<const AdamWUpdate> updates, int64_t step, float grad_scale);

// Changes parameters as `times` updates would, if gradients were such that the moments stay what
// they are after update `step`. Without weight decay. (XPipe, arXiv 1911.04610, eq. 4)
struct AdamWPrediction {
  Tensor parameter, m, v;
};
absl::Status AdamWPredict(const AdamWParams& params, int64_t step, int times,
                          absl::Span<const AdamWPrediction> predictions);

// AdamWSteps with moments in 8 bits, which are dequantised and quantised again block by block: m,
// and the root of v, because v itself spans twice the decades, more than codes reach, and where v
// was rounded to 0, Adam would divide by nothing.
struct AdamWInt8Update {
  AdamWParams params;
  Tensor grad, parameter;
  BlockQuantized *m, *root_v;  // signed and unsigned; both of one block size
};
absl::Status AdamWInt8Steps(absl::Span<const AdamWInt8Update> updates, int64_t step,
                            float grad_scale);

// The sum of the squares of each fp32 tensor, in double and in an order that depends on its size
// only. All on one device; on a CUDA device in a few launches, which are waited for once. Sums of
// several tensors must be added in one agreed order (GlobalNorm's): then the norm has the same bits
// however the parameters are spread over stages.
absl::StatusOr<std::vector<double>> SumsOfSquares(absl::Span<const Tensor> tensors);
absl::StatusOr<double> SumOfSquares(const Tensor& x);

// sqrt of the sum of the parameters' sums of squares, in the order given: the model's order.
double GlobalNorm(absl::Span<const double> sums_of_squares);

// The factor for gradients of that norm: min(1, max_norm / (norm + 1e-6)), as in
// torch.nn.utils.clip_grad_norm_. A norm that is not finite gives NaN, which shows. No clipping
// where max_norm <= 0.
float ClipScale(double norm, double max_norm);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ADAMW_H_
