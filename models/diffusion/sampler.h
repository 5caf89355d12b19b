// Draws samples: from noise to x0 in a given number of steps, by one of the samplers in samplers/,
// with diffusers' conventions.
#ifndef DPIPE_MODELS_DIFFUSION_SAMPLER_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::diffusion {

// The model: x_t [B, ...] and timesteps fp32 [B] -> its prediction, with the shape of x_t.
// Timesteps may lie between those of the schedule. The callee supplies the model's conditions.
using PredictFn = std::function<absl::StatusOr<Tensor>(const Tensor& x_t, const Tensor& timesteps)>;

// Adds classifier-free guidance (Ho and Salimans, arXiv 2207.12598). `predict` is called with each
// sample twice, [x_t | x_t], and must condition only the second half on the prompt. The result is
// unconditional + scale * (conditional - unconditional). At a scale of 1 this is the conditional
// prediction, so `predict` is called with each sample once, for the prompt.
PredictFn WithGuidance(PredictFn predict, float scale);
// True if WithGuidance calls `predict` with each sample twice.
inline bool IsGuided(float scale) { return scale != 1; }

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kDdim;
  int num_steps = 50;
  double eta = 0;  // DDIM's share of fresh noise: 0 is deterministic, 1 gives DDPM's variance
  // Fresh noise of sample b at the i-th model call is keyed by (seed, i + 1, first_sample + b).
  uint64_t seed = 0;
  uint32_t first_sample = 0;
  // Replaces that noise, for comparisons with other programs: standard normal, with x's shape.
  std::function<Tensor(int call, const Tensor& x)> fresh_noise;
  // Called after each model call with its index and x; may be empty.
  std::function<void(int call, const Tensor& x)> on_step;
};

// Returns the timesteps passed to the model, one per call, with the spacing of the schedule's
// options or the sampler's own. Returns an error if the sampler does not support the number of
// steps.
absl::StatusOr<std::vector<double>> InferenceTimesteps(const NoiseSchedule& schedule, int num_steps,
                                                       SamplerKind kind = SamplerKind::kDdim);

// Returns x0, fp32, drawn from `noise` [B, ...], fp32, in host memory. Returns Unimplemented if the
// noise is on a GPU, and passes on errors of `predict`.
absl::StatusOr<Tensor> Sample(const NoiseSchedule& schedule, const SamplerOptions& options,
                              const Tensor& noise, const PredictFn& predict);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLER_H_
