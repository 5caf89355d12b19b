// Fully connected layer over the last dimension: y = x w^T + bias [+ addend].
//
// An addend has the result's shape and element type: a residual connection, or the contribution of
// other readers to a gradient. Undefined: none. On a GPU, adding it here saves a pass over memory
// and rounds the sum once. A CPU rounds a bf16 product before it adds.
#ifndef DPIPE_CORE_OPS_PRODUCT_LINEAR_H_
#define DPIPE_CORE_OPS_PRODUCT_LINEAR_H_

#include "core/base/status.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns y: [..., out] in x's element type. x: [..., in], fp32 or bf16; w: [out, in] (or [out, in,
// 1, 1], a 1x1 convolution's); bias: fp32 [out], or undefined for none.
absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& w, const Tensor& bias,
                                     const Tensor& addend = Tensor());

// Returns dx = dy w [+ addend]: [..., in] in dy's element type, from dy: [..., out].
absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& w,
                                       const Tensor& addend = Tensor());

// Adds the gradients of w and bias to dw: fp32 [out, in] and db: fp32 [out]. db may be null. x:
// [..., in] and dy: [..., out] have one element type and the same leading dimensions.
absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_LINEAR_H_
