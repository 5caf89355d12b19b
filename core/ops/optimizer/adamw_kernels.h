// The implementations behind adamw.cc. All tensors are fp32 and of one shape.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_ADAMW_KERNELS_H_
#define DPIPE_CORE_OPS_OPTIMIZER_ADAMW_KERNELS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/ops/optimizer/adamw.h"
#include "core/ops/optimizer/adamw_factors.h"
#include "core/ops/optimizer/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct AdamWTask {
  AdamWFactors factors;
  Tensor grad, parameter, m, v;
};
struct AdamWInt8Task {
  AdamWFactors factors;
  Tensor grad, parameter;
  BlockQuantized *m, *root_v;
};

namespace ref {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
void AdamWPredict(const AdamWFactors& factors, const AdamWPrediction& prediction);
void AdamWInt8Step(const AdamWInt8Task& task);
double SumOfSquares(const Tensor& x);
}  // namespace ref
namespace cpu {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
void AdamWPredict(const AdamWFactors& factors, const AdamWPrediction& prediction);
void AdamWInt8Step(const AdamWInt8Task& task);
double SumOfSquares(const Tensor& x);
}  // namespace cpu
namespace cuda {
void AdamWSteps(const std::vector<AdamWTask>& tasks);
void AdamWPredict(const AdamWFactors& factors, absl::Span<const AdamWPrediction> predictions);
void AdamWInt8Steps(const std::vector<AdamWInt8Task>& tasks);
std::vector<double> SumsOfSquares(absl::Span<const Tensor> tensors);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_ADAMW_KERNELS_H_
