// DPM-Solver++ (Lu et al., arXiv 2211.01095), the multistep solver of order 1 to 3 of the ODE or
// the SDE, as in diffusers' DPMSolverMultistepScheduler. Never clamps x0.
#include <algorithm>
#include <cmath>
#include <deque>

#include "models/diffusion/noise_levels.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

struct Options {
  int64_t order = 2;
  bool is_sde = false;
  bool is_heun = false;  // false: midpoint
  bool lower_order_final = true;
  bool euler_at_final = false;
};

// Returns half the logarithm of the signal-to-noise ratio, the solver's time variable.
double HalfLogSnr(double alpha) { return 0.5 * std::log(alpha / (1 - alpha)); }

class DpmSolver : public Solver {
 public:
  // `alphas`: abar at each timestep and at the end of the last step.
  DpmSolver(const NoiseSchedule& schedule, std::vector<double> timesteps,
            std::vector<double> alphas, const Options& options)
      : Solver(std::move(timesteps)),
        schedule_(schedule),
        alphas_(std::move(alphas)),
        options_(options) {}

  // Equations of appendix B.1 (order 3) and algorithm 2 (order 2). With h the step's length, D0 the
  // estimate of x0, and D1 and D2 its divided differences:
  //   x = x_weight x + x0_weight (D0 + c1 D1 + c2 D2) + noise.
  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const size_t call = prediction.call;
    const double alpha = alphas_[call], next = alphas_[call + 1];
    DPIPE_ASSIGN_OR_RETURN(const Tensor x0,
                           PredictedX0(schedule_, prediction.x, prediction.output, alpha));
    if (next == 1) return x0;
    const double now = HalfLogSnr(alpha), h = HalfLogSnr(next) - now;
    const int order = OrderOf(call);
    history_.push_front({x0, now});
    if (static_cast<int64_t>(history_.size()) > options_.order) history_.pop_back();
    DPIPE_ASSIGN_OR_RETURN(const Tensor direction, Direction(order, h));
    double x_weight = std::sqrt((1 - next) / (1 - alpha));
    if (options_.is_sde) x_weight *= std::exp(-h);
    const double x0_weight = -std::sqrt(next) * std::expm1(options_.is_sde ? -2 * h : -h);
    DPIPE_ASSIGN_OR_RETURN(const Tensor x, Combine(x_weight, prediction.x, x0_weight, direction));
    const double noise = options_.is_sde ? std::sqrt((1 - next) * -std::expm1(-2 * h)) : 0;
    return AddFreshNoise(prediction, noise, x);
  }

 private:
  struct Estimate {
    Tensor x0;
    double log_snr;
  };

  // Lower in the first steps, which have too few estimates, and in the last ones.
  int OrderOf(size_t call) const {
    const size_t num_calls = timesteps_.size();
    const bool few = options_.lower_order_final && num_calls < 15;
    if (call + 1 == num_calls && (options_.euler_at_final || few)) return 1;
    const int order = static_cast<int>(std::min<int64_t>(call + 1, options_.order));
    return call + 2 == num_calls && few ? std::min(order, 2) : order;
  }

  struct Coefficients {
    double c1, c2;
  };
  Coefficients CoefficientsOf(int order, double h) const {
    const bool is_midpoint = order == 2 && !options_.is_heun;
    if (is_midpoint) return {0.5, 0};
    if (!options_.is_sde) {
      const double e = std::expm1(-h);
      return {-(e / h + 1) / e, ((e + h) / (h * h) - 0.5) / e};
    }
    const double e = std::expm1(-2 * h), h2 = 2 * h;
    return {-(e / h2 + 1) / e, ((e + h2) / (h2 * h2) + 0.5) / e};
  }

  absl::StatusOr<Tensor> Direction(int order, double h) const {
    const Tensor& m0 = history_[0].x0;
    if (order == 1) return m0;
    const auto [c1, c2] = CoefficientsOf(order, h);
    const double r0 = (history_[0].log_snr - history_[1].log_snr) / h;
    const Tensor& m1 = history_[1].x0;
    if (order == 2) return Combine(1 + c1 / r0, m0, -c1 / r0, m1);
    const double r1 = (history_[1].log_snr - history_[2].log_snr) / h;
    // D1 = d0 + r0 / (r0 + r1) (d0 - d1) and D2 = (d0 - d1) / (r0 + r1), with the differences
    // d0 = (m0 - m1) / r0 and d1 = (m1 - m2) / r1.
    const double of_difference = (c1 * r0 + c2) / (r0 + r1);
    const double d0 = (c1 + of_difference) / r0, d1 = -of_difference / r1;
    return WeightedSum({{1 + d0, m0}, {d1 - d0, m1}, {-d1, history_[2].x0}});
  }

  const NoiseSchedule& schedule_;
  const std::vector<double> alphas_;
  const Options options_;
  std::deque<Estimate> history_;  // newest first
};

absl::StatusOr<Options> ReadOptions(models::ComponentConfig* keys) {
  Options options;
  options.order = keys->PositiveInt("solver_order", 2);
  if (options.order > 3) keys->AddProblem("solver_order", "expected 1, 2 or 3");
  options.is_sde = keys->String("algorithm_type", "dpmsolver++") == "sde-dpmsolver++";
  options.is_heun = keys->String("solver_type", "midpoint") == "heun";
  options.lower_order_final = keys->Bool("lower_order_final", true);
  options.euler_at_final = keys->Bool("euler_at_final", false);
  DPIPE_RETURN_IF_ERROR(keys->status());
  return options;
}

struct Visited {
  std::vector<double> timesteps;
  std::vector<double> alphas;  // abar at each and at the end of the last step
};

absl::StatusOr<Visited> SpreadOver(const NoiseSchedule& schedule, int num_steps) {
  Spread spread = {SpacingOr(schedule, TimestepSpacing::kLinspace), num_steps};
  spread.drops_last = true;
  Visited visited;
  DPIPE_ASSIGN_OR_RETURN(visited.timesteps, SpreadTimesteps(schedule, spread));
  for (double t : visited.timesteps) {
    const double alpha = schedule.alpha_cumprod(static_cast<int>(t));
    visited.alphas.push_back(alpha == 0 ? kMinAlphaCumprod : alpha);
  }
  return visited;
}

// diffusers truncates the timesteps of exponential levels. It rounds those of Karras levels, except
// with squaredcos_cap_v2, for which it truncates them too.
absl::StatusOr<Visited> Levels(const NoiseSchedule& schedule, int num_steps, bool is_exponential) {
  DPIPE_RETURN_IF_ERROR(CheckNumSteps(schedule, num_steps));
  const bool truncates =
      is_exponential || schedule.options().beta_schedule == BetaSchedule::kSquaredCosCapV2;
  Visited visited;
  for (const NoiseLevel& level : is_exponential ? ExponentialNoiseLevels(schedule, num_steps)
                                                : KarrasNoiseLevels(schedule, num_steps)) {
    visited.timesteps.push_back(truncates ? TruncatedTimestep(level.timestep)
                                          : RoundedTimestep(level.timestep));
    visited.alphas.push_back(1 / (1 + level.sigma * level.sigma));
  }
  return visited;
}

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const NoiseSchedule& schedule = *setup.schedule;
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(schedule));
  DPIPE_ASSIGN_OR_RETURN(const Options options, ReadOptions(&keys));
  const bool is_karras = schedule.options().use_karras_sigmas;
  const bool is_exponential = !is_karras && keys.Bool("use_exponential_sigmas", false);
  const bool ends_at_min = keys.String("final_sigmas_type", "zero") == "sigma_min";
  DPIPE_RETURN_IF_ERROR(keys.status());
  DPIPE_ASSIGN_OR_RETURN(Visited visited, is_karras || is_exponential
                                              ? Levels(schedule, setup.num_steps, is_exponential)
                                              : SpreadOver(schedule, setup.num_steps));
  visited.alphas.push_back(ends_at_min ? schedule.alpha_cumprod(0) : 1);
  return std::make_unique<DpmSolver>(schedule, std::move(visited.timesteps),
                                     std::move(visited.alphas), options);
}

}  // namespace

SamplerInfo DpmSolverSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kDpmSolver;
  info.name = "dpm++";
  info.classes = {"DPMSolverMultistepScheduler"};
  info.followed = {{"algorithm_type", {"\"dpmsolver++\"", "\"sde-dpmsolver++\"", "\"deis\""}},
                   {"lambda_min_clipped", {"-Infinity"}},
                   {"use_beta_sigmas", {"false"}},
                   {"use_lu_lambdas", {"false"}},
                   {"variance_type", {"null"}}};
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
