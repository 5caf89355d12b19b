// DDIM (Song et al., arXiv 2010.02502), as in diffusers' DDIMScheduler.
#include <algorithm>
#include <cmath>

#include "models/diffusion/noise_levels.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

class Ddim : public Solver {
 public:
  Ddim(const SolverSetup& setup, std::vector<double> timesteps)
      : Solver(std::move(timesteps)), schedule_(*setup.schedule), eta_(setup.eta) {}

  // Equation 12.
  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const int t = static_cast<int>(timesteps_[prediction.call]);
    const double alpha = schedule_.alpha_cumprod(t);
    const double next = AlphaAfter(t);
    DPIPE_ASSIGN_OR_RETURN(const Tensor x0, ClippedX0(schedule_, prediction, alpha));
    DPIPE_ASSIGN_OR_RETURN(const Tensor noise,
                           PredictedNoise(schedule_, prediction.x, prediction.output, alpha));
    const double posterior = (1 - next) / (1 - alpha) * (1 - alpha / next);
    const double variance = eta_ * eta_ * posterior;
    const double direction = std::sqrt(std::max(0.0, 1 - next - variance));
    DPIPE_ASSIGN_OR_RETURN(const Tensor mean, Combine(std::sqrt(next), x0, direction, noise));
    return AddFreshNoise(prediction, std::sqrt(variance), mean);
  }

 private:
  // A step covers num_timesteps / num_steps timesteps, rounded down, for every spacing.
  double AlphaAfter(int t) const {
    const int next = t - schedule_.num_timesteps() / static_cast<int>(timesteps_.size());
    return next < 0 ? schedule_.final_alpha_cumprod() : schedule_.alpha_cumprod(next);
  }

  const NoiseSchedule& schedule_;
  const double eta_;
};

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const Spread spread = {SpacingOr(*setup.schedule, TimestepSpacing::kLeading), setup.num_steps};
  DPIPE_ASSIGN_OR_RETURN(std::vector<double> timesteps, SpreadTimesteps(*setup.schedule, spread));
  return std::make_unique<Ddim>(setup, std::move(timesteps));
}

}  // namespace

SamplerInfo DdimSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kDdim;
  info.name = "ddim";
  info.classes = {"DDIMScheduler", "DDIMParallelScheduler"};
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
