// Going between clean samples, noise, noisy samples and what a model predicts.
//
// Tensors are [B, ...]; `timesteps` is int32 [B], each in [0, num_timesteps), else InvalidArgument;
// but where the host cannot read them, samples at other timesteps become NaNs. Arithmetic is fp32
// with coefficients from double.
#ifndef DPIPE_MODELS_DIFFUSION_NOISING_H_
#define DPIPE_MODELS_DIFFUSION_NOISING_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// x_t, in `dtype`: what the backbone is given.
absl::StatusOr<Tensor> AddNoise(const NoiseSchedule& schedule, const Tensor& x0,
                                const Tensor& noise, const Tensor& timesteps, DType dtype);

// What the backbone should predict, fp32: the noise, the velocity, or x0, by the schedule's
// prediction type.
absl::StatusOr<Tensor> TrainingTarget(const NoiseSchedule& schedule, const Tensor& x0,
                                      const Tensor& noise, const Tensor& timesteps);

// x0 and noise, fp32, as a prediction at x_t implies them. InvalidArgument where they cannot be
// told: x0 from the noise at an abar of 0, the noise from x0 at an abar of 1. They read the
// timesteps on the host, and wait for them.
absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, const Tensor& timesteps);
absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, const Tensor& timesteps);

// The same of samples that are all at one abar, which no timestep need have. Errors as above.
absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, double alpha_cumprod);
absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, double alpha_cumprod);

// Loss weights, fp32 [B] (Hang et al., arXiv 2303.09556): min(snr, gamma) / snr where noise is
// predicted, min(snr, gamma) / (snr + 1) for v, min(snr, gamma) for x0. gamma > 0; 5 is usual.
absl::StatusOr<Tensor> MinSnrWeights(const NoiseSchedule& schedule, double gamma,
                                     const Tensor& timesteps);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISING_H_
