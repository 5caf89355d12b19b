// Ancestral sampling (DDPM; Ho et al., arXiv 2006.11239), as in diffusers' DDPMScheduler.
#include <cmath>

#include "models/diffusion/noise_levels.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

class Ddpm : public Solver {
 public:
  Ddpm(const NoiseSchedule& schedule, std::vector<double> timesteps, bool has_large_variance)
      : Solver(std::move(timesteps)),
        schedule_(schedule),
        has_large_variance_(has_large_variance) {}

  // Equation 7, from level to level; the last step adds no noise.
  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const double alpha = AlphaAt(prediction.call), next = AlphaAt(prediction.call + 1);
    DPIPE_ASSIGN_OR_RETURN(const Tensor x0, ClippedX0(schedule_, prediction, alpha));
    const double alpha_step = alpha / next;
    const double x0_weight = std::sqrt(next) * (1 - alpha_step) / (1 - alpha);
    const double x_weight = std::sqrt(alpha_step) * (1 - next) / (1 - alpha);
    DPIPE_ASSIGN_OR_RETURN(const Tensor mean, Combine(x0_weight, x0, x_weight, prediction.x));
    const double small = (1 - next) / (1 - alpha) * (1 - alpha / next);
    const double large = timesteps_[prediction.call] > 0 ? 1 - alpha / next : 0;
    return AddFreshNoise(prediction, std::sqrt(has_large_variance_ ? large : small), mean);
  }

 private:
  double AlphaAt(size_t call) const {
    if (call == timesteps_.size()) return 1;
    return schedule_.alpha_cumprod(static_cast<int>(timesteps_[call]));
  }

  const NoiseSchedule& schedule_;
  const bool has_large_variance_;
};

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const Spread spread = {SpacingOr(*setup.schedule, TimestepSpacing::kLeading), setup.num_steps};
  DPIPE_ASSIGN_OR_RETURN(std::vector<double> timesteps, SpreadTimesteps(*setup.schedule, spread));
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(*setup.schedule));
  const bool is_large = keys.String("variance_type", "fixed_small") == "fixed_large";
  DPIPE_RETURN_IF_ERROR(keys.status());
  return std::make_unique<Ddpm>(*setup.schedule, std::move(timesteps), is_large);
}

}  // namespace

SamplerInfo DdpmSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kDdpm;
  info.name = "ddpm";
  info.classes = {"DDPMScheduler", "DDPMParallelScheduler"};
  // The first two values name the same variance.
  info.followed = {
      {"variance_type", {"\"fixed_small\"", "\"fixed_small_log\"", "\"fixed_large\""}}};
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
