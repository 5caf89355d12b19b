// A sample of a diagonal normal distribution whose mean and log-variance come from a network: the
// latents of a VAE (diffusers DiagonalGaussianDistribution), scaled.
//
//   z = factor * (mean + exp(clamp(log_variance, -30, 20) / 2) * noise)
#ifndef DPIPE_CORE_OPS_DIFFUSION_GAUSSIAN_SAMPLE_H_
#define DPIPE_CORE_OPS_DIFFUSION_GAUSSIAN_SAMPLE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns z, fp32 [..., C], from moments [..., 2C] = [mean | log_variance] in fp32 or bf16 and
// noise, fp32 [..., C]. Computes in double; the tensors are small.
absl::StatusOr<Tensor> GaussianSampleForward(float factor, const Tensor& moments,
                                             const Tensor& noise);

// Returns d_moments, with the moments' shape and dtype, from dz fp32 [..., C]. The log-variance's
// gradient is zero if it is clamped.
absl::StatusOr<Tensor> GaussianSampleInputGrad(float factor, const Tensor& moments,
                                               const Tensor& noise, const Tensor& dz);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_GAUSSIAN_SAMPLE_H_
