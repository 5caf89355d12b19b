// The implementations that adamw.cc chooses from. All tensors are fp32 and of one shape.
#ifndef DPIPE_CORE_OPS_ADAMW_KERNELS_H_
#define DPIPE_CORE_OPS_ADAMW_KERNELS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/ops/adamw_factors.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

namespace ref {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
double SumOfSquares(const Tensor& x);
void EmaUpdate(float decay, const Tensor& value, Tensor* average);
}  // namespace ref
namespace cpu {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
double SumOfSquares(const Tensor& x);
void EmaUpdate(float decay, const Tensor& value, Tensor* average);
}  // namespace cpu
namespace cuda {
struct AdamWTask {
  AdamWFactors factors;
  Tensor grad, parameter, m, v;
};
void AdamWSteps(const std::vector<AdamWTask>& tasks);
std::vector<double> SumsOfSquares(absl::Span<const Tensor> tensors);
void EmaUpdate(float decay, const Tensor& value, Tensor* average);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ADAMW_KERNELS_H_
