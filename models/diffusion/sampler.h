// Drawing samples: from noise to x0 in a chosen number of steps, by one of the samplers in
// samplers/, with diffusers' conventions.
#ifndef DPIPE_MODELS_DIFFUSION_SAMPLER_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler_kind.h"

namespace dpipe::diffusion {

// The model: x_t [B, ...] and timesteps fp32 [B] -> its prediction, of x_t's shape. Timesteps may
// lie between the schedule's. What the model is conditioned on is the callee's business.
using PredictFn = std::function<absl::StatusOr<Tensor>(const Tensor& x_t, const Tensor& timesteps)>;

// Classifier-free guidance (Ho and Salimans, arXiv 2207.12598). `predict` is called with each
// sample twice, [x_t | x_t], and must condition the first half on nothing and the second on the
// prompt; the result is unconditional + scale * (conditional - unconditional). At a scale of 1 that
// is the conditional prediction, and `predict` is called with each sample once, for the prompt.
PredictFn WithGuidance(PredictFn predict, float scale);
// Whether `predict` of WithGuidance is called with each sample twice.
inline bool IsGuided(float scale) { return scale != 1; }

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kDdim;
  int num_steps = 50;
  double eta = 0;  // DDIM's share of fresh noise: 0 is deterministic, 1 has DDPM's variance
  // The fresh noise of sample b at the i-th call of the model is keyed by (seed, i + 1,
  // first_sample
  // + b).
  uint64_t seed = 0;
  uint32_t first_sample = 0;
  // Instead of that noise: standard normal, of x's shape. For comparisons with other programs.
  std::function<Tensor(int call, const Tensor& x)> fresh_noise;
  // Called after each call of the model with its index and x; may be empty.
  std::function<void(int call, const Tensor& x)> on_step;
};

// Returns the timesteps that the model is told, call by call, with the spacing of the schedule's
// options or the sampler's own. Errors are the sampler's: if it cannot draw in so many steps.
absl::StatusOr<std::vector<double>> InferenceTimesteps(const NoiseSchedule& schedule, int num_steps,
                                                       SamplerKind kind = SamplerKind::kDdim);

// x0, fp32, from `noise` [B, ...], fp32. Errors of `predict` are passed on.
absl::StatusOr<Tensor> Sample(const NoiseSchedule& schedule, const SamplerOptions& options,
                              const Tensor& noise, const PredictFn& predict);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLER_H_
