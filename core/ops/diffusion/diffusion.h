// Noise, samples of latents and the loss of diffusion models.
#ifndef DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_H_
#define DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_H_

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Weighted sums with one pair of weights per sample: adding noise, and the steps of samplers.
//
// Returns z[b] = x_weights[b] * x[b] + y_weights[b] * y[b], computed in fp32 and rounded once to
// `dtype`. x and y have one shape [B, ...], each fp32 or bf16, and there are B weights each. A
// weight of zero still propagates NaN.
absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype);
// As above, with fp32 [B] weights on the tensors' device.
absl::StatusOr<Tensor> CombineSamples(const Tensor& x_weights, const Tensor& x,
                                      const Tensor& y_weights, const Tensor& y, DType dtype);

// Looks up one number per sample in a constant table: y[b] = table[index[b]], fp32 [B], on the
// device of `index`, int32 [B]. NaN if the index is outside the table.
absl::StatusOr<Tensor> LookUp(absl::Span<const float> table, const Tensor& index);

// Returns y[b] = scale / (a + b x[b] + c x[b]^2), computed in double, fp32 [B] as x: a loss weight
// per noise level.
struct Quadratic {
  double a, b, c;
};
absl::StatusOr<Tensor> InverseQuadratic(double scale, const Quadratic& quadratic, const Tensor& x);

// A sample of a diagonal normal distribution whose mean and log-variance come from a network: the
// latents of a VAE (diffusers DiagonalGaussianDistribution), scaled.
//
//   z = factor * (mean + exp(clamp(log_variance, -30, 20) / 2) * noise)

// Returns z, fp32 [..., C], from moments [..., 2C] = [mean | log_variance] in fp32 or bf16 and
// noise, fp32 [..., C]. Computes in double; the tensors are small.
absl::StatusOr<Tensor> GaussianSampleForward(float factor, const Tensor& moments,
                                             const Tensor& noise);

// Returns d_moments, with the moments' shape and dtype, from dz fp32 [..., C]. The log-variance's
// gradient is zero if it is clamped.
absl::StatusOr<Tensor> GaussianSampleInputGrad(float factor, const Tensor& moments,
                                               const Tensor& noise, const Tensor& dz);

// Mean squared error, one number per sample:
//
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

#endif  // DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_H_
