// The implementations behind mse_loss.cc. `factors` [B] multiply each sample's terms.
#ifndef DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_KERNELS_H_
#define DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_KERNELS_H_

#include <vector>

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
// loss[b] = factors[b] * sum of squares of the differences.
void SquaredError(const Tensor& prediction, const Tensor& target,
                  const std::vector<double>& factors, Tensor* loss);
// dp = factors[b] * difference.
void ScaledError(const Tensor& prediction, const Tensor& target, const std::vector<double>& factors,
                 Tensor* dp);
}  // namespace ref
namespace cpu {
void SquaredError(const Tensor& prediction, const Tensor& target,
                  const std::vector<double>& factors, Tensor* loss);
void ScaledError(const Tensor& prediction, const Tensor& target, const std::vector<double>& factors,
                 Tensor* dp);
}  // namespace cpu
namespace cuda {
// As in mse_loss.h, without checks.
void MseLossForward(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                    Tensor* loss);
void MseLossInputGrad(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                      const Tensor& d_loss, Tensor* dp);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_MSE_LOSS_KERNELS_H_
