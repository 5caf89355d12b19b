// Training and sampling by flow matching; flow_schedule.h has the definitions.
//
// Tensors are [B, ...]; `levels` are noise levels, fp32 [B], in [0, 1].
#ifndef DPIPE_MODELS_DIFFUSION_FLOW_MATCHING_H_
#define DPIPE_MODELS_DIFFUSION_FLOW_MATCHING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/flow_schedule.h"
#include "models/diffusion/sampler.h"

namespace dpipe::diffusion {

// Returns (1 - s) x0 + s noise in `dtype`, the backbone's input.
absl::StatusOr<Tensor> FlowInput(const Tensor& x0, const Tensor& noise, const Tensor& levels,
                                 DType dtype);
// Returns the backbone's target noise - x0, fp32.
absl::StatusOr<Tensor> FlowTarget(const Tensor& x0, const Tensor& noise);

// Probability densities from which training draws (compute_density_for_timestep_sampling in
// diffusers' training_utils.py): u in (0, 1), with z standard normal and v uniform:
enum class FlowDensity {
  kUniform,      // v
  kLogitNormal,  // 1 / (1 + exp(-(logit_mean + logit_std z)))
  kMode,         // 1 - v - mode_scale (cos(pi v / 2)^2 - 1 + v)
};

// Weights of a sample's loss by its noise level s (compute_loss_weighting_for_sd3).
enum class FlowWeight {
  kOne,
  kSigmaSqrt,  // 1 / s^2
  kCosmap,     // 2 / (pi (1 - 2 s + 2 s^2))
};

struct FlowSamplingOptions {
  FlowDensity density = FlowDensity::kUniform;
  double logit_mean = 0, logit_std = 1;
  double mode_scale = 1.29;
  // Applied to the drawn levels, after the schedule's own shift (ShiftLevel).
  double shift = 1;
};

// Parses "none", "sigma_sqrt" or "cosmap". Returns InvalidArgument with these names for any other.
absl::StatusOr<FlowWeight> ParseFlowWeight(absl::string_view name);

// Immutable; thread-safe.
class FlowLevels {
 public:
  // Returns InvalidArgument with the value and its range: logit_std > 0, mode_scale in [-1,
  // 2 / (pi - 2)], where the density is defined, shift > 0.
  static absl::StatusOr<FlowLevels> Create(const FlowSchedule& schedule,
                                           const FlowSamplingOptions& options);

  // Returns the noise level of a sample, keyed by all three: level floor(u num_train_timesteps) of
  // the schedule's train_levels(), as diffusers' training scripts take it, then shifted. Level 0 of
  // the table is pure noise.
  double DrawLevel(uint64_t seed, uint64_t step, uint32_t sample) const;
  // Returns noise levels, fp32 [count]. Row b belongs to sample first_sample + b.
  Tensor Draw(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
              uint32_t first_sample, int count) const;

  // Returns the u of a sample.
  double DrawDensity(uint64_t seed, uint64_t step, uint32_t sample) const;

 private:
  FlowLevels(const FlowSchedule& schedule, const FlowSamplingOptions& options)
      : schedule_(schedule), options_(options) {}

  const FlowSchedule schedule_;
  const FlowSamplingOptions options_;
};

// Returns the timesteps that the model is given, fp32 [B]: num_train_timesteps times the levels.
absl::StatusOr<Tensor> FlowTimesteps(const FlowSchedule& schedule, const Tensor& levels);

// Returns the losses' weights, fp32 [B].
absl::StatusOr<Tensor> FlowWeights(FlowWeight weight, const Tensor& levels);

struct FlowSampleOptions {
  std::vector<double> levels;  // of FlowSchedule::SamplingLevels
  // Called after each model call with its index and x; may be empty.
  std::function<void(int call, const Tensor& x)> on_step;
};

// Returns x0, fp32, drawn from `noise` [B, ...], fp32, in host memory, by Euler's method: from
// level s to s', x += (s' - s) prediction. `predict` gets x and FlowTimesteps; WithGuidance
// (sampler.h) adds classifier-free guidance, and a model with embedded guidance gets it from the
// callee. Returns Unimplemented if the noise is on a GPU, and passes on errors of `predict`.
absl::StatusOr<Tensor> SampleFlow(const FlowSchedule& schedule, const FlowSampleOptions& options,
                                  const Tensor& noise, const PredictFn& predict);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_FLOW_MATCHING_H_
