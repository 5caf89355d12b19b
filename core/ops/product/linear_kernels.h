// The implementations behind linear.cc: linear.h's functions without the checks. Those for CPUs
// have no addend.
#ifndef DPIPE_CORE_OPS_PRODUCT_LINEAR_KERNELS_H_
#define DPIPE_CORE_OPS_PRODUCT_LINEAR_KERNELS_H_

#include "core/base/status.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
Tensor LinearForward(const Tensor& x, const Weight& w, const Tensor& bias, const Tensor& addend);
Tensor LinearInputGrad(const Tensor& dy, const Weight& w, const Tensor& addend);
void LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db);
}  // namespace ref
namespace cpu {
absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& w, const Tensor& bias);
absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& w);
absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db);
}  // namespace cpu
namespace cuda {
absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& w, const Tensor& bias,
                                     const Tensor& addend);
absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& w, const Tensor& addend);
absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_LINEAR_KERNELS_H_
