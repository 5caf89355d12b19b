// Conversions between clean samples, noise, noisy samples and predictions.
//
// Tensors are [B, ...]; `timesteps` is int32 [B], each in [0, num_timesteps), else InvalidArgument.
// If the host cannot read the timesteps, samples at invalid ones become NaNs instead. Arithmetic is
// fp32 with coefficients rounded from double.
#ifndef DPIPE_MODELS_DIFFUSION_NOISING_H_
#define DPIPE_MODELS_DIFFUSION_NOISING_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// Returns x_t in `dtype`, the backbone's input.
absl::StatusOr<Tensor> AddNoise(const NoiseSchedule& schedule, const Tensor& x0,
                                const Tensor& noise, const Tensor& timesteps, DType dtype);

// Returns the backbone's target, fp32: the noise, the velocity or x0, by the schedule's prediction
// type.
absl::StatusOr<Tensor> TrainingTarget(const NoiseSchedule& schedule, const Tensor& x0,
                                      const Tensor& noise, const Tensor& timesteps);

// Return the x0 or the noise, fp32, that a prediction at x_t implies. Return InvalidArgument if it
// is undetermined: x0 from the noise at an abar of 0, the noise from x0 at an abar of 1. They block
// until the host can read the timesteps.
absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, const Tensor& timesteps);
absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, const Tensor& timesteps);

// The same for samples at one abar, which need not belong to a timestep. The errors are the same.
absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, double alpha_cumprod);
absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, double alpha_cumprod);

// Returns loss weights, fp32 [B] (Hang et al., arXiv 2303.09556): min(snr, gamma) / snr if the
// model predicts the noise, min(snr, gamma) / (snr + 1) for v, min(snr, gamma) for x0. gamma > 0; 5
// is usual.
absl::StatusOr<Tensor> MinSnrWeights(const NoiseSchedule& schedule, double gamma,
                                     const Tensor& timesteps);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISING_H_
