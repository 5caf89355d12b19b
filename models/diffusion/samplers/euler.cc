// Euler's method for the probability-flow ODE (Karras et al., arXiv 2206.00364, algorithm 2 without
// churn) and its ancestral form, as in diffusers' EulerDiscreteScheduler and
// EulerAncestralDiscreteScheduler. x is x0 + sigma noise.
#include <cmath>

#include "models/diffusion/noise_levels.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

std::vector<double> TimestepsOf(const std::vector<NoiseLevel>& levels) {
  std::vector<double> timesteps;
  for (const NoiseLevel& level : levels) timesteps.push_back(level.timestep);
  return timesteps;
}

struct Options {
  TimestepSpacing spacing;
  double last_sigma = 0;  // at the end of the last step
  bool is_ancestral = false;
};

class Euler : public Solver {
 public:
  Euler(const NoiseSchedule& schedule, std::vector<NoiseLevel> levels, const Options& options)
      : Solver(TimestepsOf(levels)), schedule_(schedule), options_(options) {
    for (const NoiseLevel& level : levels) sigmas_.push_back(level.sigma);
    sigmas_.push_back(options.last_sigma);
  }

  double initial_scale() const override {
    const double max_sigma = sigmas_[0];
    return options_.spacing == TimestepSpacing::kLeading ? std::sqrt(max_sigma * max_sigma + 1)
                                                         : max_sigma;
  }
  double input_scale(size_t call) const override {
    return 1 / std::sqrt(sigmas_[call] * sigmas_[call] + 1);
  }

  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const double sigma = sigmas_[prediction.call], next = sigmas_[prediction.call + 1];
    // The share of fresh noise in an ancestral step to `next`.
    const double up =
        options_.is_ancestral ? next * std::sqrt(1 - (next / sigma) * (next / sigma)) : 0;
    const double down = options_.is_ancestral ? next * (next / sigma) : next;
    const Weights weights = StepWeights(sigma, down - sigma);
    DPIPE_ASSIGN_OR_RETURN(const Tensor x,
                           Combine(weights.x, prediction.x, weights.output, prediction.output));
    return AddFreshNoise(prediction, up, x);
  }

 private:
  struct Weights {
    double x, output;
  };
  // Returns the weights of x + length (x - x0) / sigma, with the x0 that the output implies.
  Weights StepWeights(double sigma, double length) const {
    switch (schedule_.options().prediction_type) {
      case PredictionType::kEpsilon:
        return {1, length};
      case PredictionType::kSample:
        return {1 + length / sigma, -length / sigma};
      case PredictionType::kV:
        break;
    }
    const double square = sigma * sigma + 1;
    return {1 + length * sigma / square, length / std::sqrt(square)};
  }

  const NoiseSchedule& schedule_;
  const Options options_;
  std::vector<double> sigmas_;  // at every call and at the end of the last step
};

absl::StatusOr<std::vector<NoiseLevel>> SpreadLevels(const SolverSetup& setup,
                                                     TimestepSpacing spacing) {
  Spread spread = {spacing, setup.num_steps};
  spread.rounds = false;
  DPIPE_ASSIGN_OR_RETURN(const std::vector<double> timesteps,
                         SpreadTimesteps(*setup.schedule, spread));
  std::vector<NoiseLevel> levels;
  for (double t : timesteps) levels.push_back({SigmaBetween(*setup.schedule, t), t});
  return levels;
}

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const NoiseSchedule& schedule = *setup.schedule;
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(schedule));
  Options options;
  options.spacing = SpacingOr(schedule, TimestepSpacing::kLinspace);
  DPIPE_ASSIGN_OR_RETURN(std::vector<NoiseLevel> levels, SpreadLevels(setup, options.spacing));
  const double max_sigma = levels.front().sigma, min_sigma = levels.back().sigma;
  if (schedule.options().use_karras_sigmas) {
    levels = KarrasNoiseLevels(schedule, max_sigma, min_sigma, setup.num_steps);
  } else if (keys.Bool("use_exponential_sigmas", false)) {
    levels = ExponentialNoiseLevels(schedule, max_sigma, min_sigma, setup.num_steps);
  }
  if (keys.String("final_sigmas_type", "zero") == "sigma_min") {
    options.last_sigma = SigmaAt(schedule, 0);
  }
  DPIPE_RETURN_IF_ERROR(keys.status());
  return std::make_unique<Euler>(schedule, std::move(levels), options);
}

absl::StatusOr<std::unique_ptr<Solver>> MakeAncestral(const SolverSetup& setup) {
  Options options;
  options.spacing = SpacingOr(*setup.schedule, TimestepSpacing::kLinspace);
  options.is_ancestral = true;
  DPIPE_ASSIGN_OR_RETURN(std::vector<NoiseLevel> levels, SpreadLevels(setup, options.spacing));
  return std::make_unique<Euler>(*setup.schedule, std::move(levels), options);
}

}  // namespace

SamplerInfo EulerSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kEuler;
  info.name = "euler";
  info.classes = {"EulerDiscreteScheduler"};
  info.followed = {{"interpolation_type", {"\"linear\""}},
                   {"sigma_max", {"null"}},
                   {"sigma_min", {"null"}},
                   {"timestep_type", {"\"discrete\""}},
                   {"use_beta_sigmas", {"false"}}};
  info.make = Make;
  return info;
}

SamplerInfo EulerAncestralSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kEulerAncestral;
  info.name = "euler_a";
  info.classes = {"EulerAncestralDiscreteScheduler"};
  info.draws_from_x0 = false;
  info.make = MakeAncestral;
  return info;
}

}  // namespace dpipe::diffusion
