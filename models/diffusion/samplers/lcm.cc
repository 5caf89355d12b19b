// Sampling of latent consistency models (Luo et al., arXiv 2310.04378), as in diffusers'
// LCMScheduler.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

class Lcm : public Solver {
 public:
  Lcm(const NoiseSchedule& schedule, std::vector<double> timesteps, double timestep_scaling)
      : Solver(std::move(timesteps)), schedule_(schedule), timestep_scaling_(timestep_scaling) {}

  // Estimates x0 and adds the noise of the next timestep to it, except after the last timestep.
  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const double t = timesteps_[prediction.call];
    const double alpha = schedule_.alpha_cumprod(static_cast<int>(t));
    DPIPE_ASSIGN_OR_RETURN(const Tensor x0, ClippedX0(schedule_, prediction, alpha));
    // Boundary condition: at t = 0 the estimate is x itself.
    constexpr double kDataVariance = 0.25;
    const double scaled = t * timestep_scaling_;
    const double skip = kDataVariance / (scaled * scaled + kDataVariance);
    const double out = scaled / std::sqrt(scaled * scaled + kDataVariance);
    DPIPE_ASSIGN_OR_RETURN(const Tensor estimate, Combine(out, x0, skip, prediction.x));
    if (prediction.call + 1 == timesteps_.size()) return estimate;
    const double next = schedule_.alpha_cumprod(static_cast<int>(timesteps_[prediction.call + 1]));
    return Combine(std::sqrt(next), estimate, std::sqrt(1 - next), prediction.fresh_noise());
  }

 private:
  const NoiseSchedule& schedule_;
  const double timestep_scaling_;
};

// Returns an evenly spread subset of the timesteps at which the model was distilled.
absl::StatusOr<std::vector<double>> Timesteps(const SolverSetup& setup, int64_t distilled_steps) {
  const int64_t total = setup.schedule->num_timesteps();
  if (distilled_steps > total) {
    return absl::InvalidArgumentError(
        absl::StrCat("scheduler_config.json: original_inference_steps"
                     " is ",
                     distilled_steps, "; the schedule has ", total, " timesteps"));
  }
  if (setup.num_steps < 1 || setup.num_steps > distilled_steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling in ", setup.num_steps, " steps; LCM allows 1 to ", distilled_steps,
                     ", original_inference_steps of the scheduler's config"));
  }
  const int64_t stride = total / distilled_steps;
  // Divides first, as numpy's linspace does.
  const double spacing = static_cast<double>(distilled_steps) / setup.num_steps;
  std::vector<double> timesteps;
  for (int i = 0; i < setup.num_steps; ++i) {
    const int64_t skipped = static_cast<int64_t>(i * spacing);
    timesteps.push_back(static_cast<double>((distilled_steps - skipped) * stride - 1));
  }
  return timesteps;
}

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(*setup.schedule));
  const int64_t distilled_steps = keys.PositiveInt("original_inference_steps", 50);
  const double timestep_scaling = keys.Number("timestep_scaling", 10);
  DPIPE_RETURN_IF_ERROR(keys.status());
  DPIPE_ASSIGN_OR_RETURN(std::vector<double> timesteps, Timesteps(setup, distilled_steps));
  return std::make_unique<Lcm>(*setup.schedule, std::move(timesteps), timestep_scaling);
}

}  // namespace

SamplerInfo LcmSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kLcm;
  info.name = "lcm";
  info.classes = {"LCMScheduler"};
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
