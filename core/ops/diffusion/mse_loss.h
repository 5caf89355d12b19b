// Mean squared error, one number per sample.
#ifndef DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_H_
#define DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns loss[b] = weights[b] * mean over the other dimensions of (prediction - target)^2 -> fp32
// [B]. prediction and target have one shape [B, ...], each fp32 or bf16. weights is fp32 [B]
// (min-SNR), or undefined for ones.
absl::StatusOr<Tensor> MseLossForward(const Tensor& prediction, const Tensor& target,
                                      const Tensor& weights);

// Returns the gradient of the prediction, in its dtype, given d_loss fp32 [B]. The mean loss of a
// batch of N samples has d_loss = 1 / N, even if only some of them are here.
absl::StatusOr<Tensor> MseLossInputGrad(const Tensor& prediction, const Tensor& target,
                                        const Tensor& weights, const Tensor& d_loss);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_H_
