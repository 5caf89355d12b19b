// A draw from a diagonal normal distribution whose mean and log-variance a network gave: the
// latents of a VAE (diffusers DiagonalGaussianDistribution), scaled.
//
//   z = factor * (mean + exp(clamp(log_variance, -30, 20) / 2) * noise)
#ifndef DPIPE_CORE_OPS_GAUSSIAN_SAMPLE_H_
#define DPIPE_CORE_OPS_GAUSSIAN_SAMPLE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// moments [..., 2C] = [mean | log_variance] in fp32 or bf16, noise fp32 [..., C] -> z fp32 [...,
// C]. Computed in double: the tensors are small.
absl::StatusOr<Tensor> GaussianSampleForward(float factor, const Tensor& moments,
                                             const Tensor& noise);

// d_moments, shaped and typed as the moments, from dz fp32 [..., C]. The log-variance has none
// where it is clamped.
absl::StatusOr<Tensor> GaussianSampleInputGrad(float factor, const Tensor& moments,
                                               const Tensor& noise, const Tensor& dz);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_GAUSSIAN_SAMPLE_H_
