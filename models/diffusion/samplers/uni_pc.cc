// UniPC (Zhao et al., arXiv 2302.04867): the predictor and corrector of order 1 to 3 that predict
// x0, as in diffusers' UniPCMultistepScheduler. Never clamps x0.
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
  bool is_bh1 = false;  // B(h) = h; false: e^h - 1
  bool lower_order_final = true;
};

// A noise level: x = alpha x0 + deviation noise. The solver's time variable is log_snr =
// log(alpha / deviation).
struct Level {
  double sigma;
  double alpha() const { return 1 / std::sqrt(sigma * sigma + 1); }
  double deviation() const { return sigma * alpha(); }
  double log_snr() const { return -std::log(sigma); }
};

// Solves a x = b by Gaussian elimination with pivoting; a is regular, and at most 3 x 3.
std::vector<double> Solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

class UniPc : public Solver {
 public:
  // `sigmas`: at each timestep and at the end of the last step.
  UniPc(const NoiseSchedule& schedule, std::vector<double> timesteps, std::vector<double> sigmas,
        const Options& options)
      : Solver(std::move(timesteps)),
        schedule_(schedule),
        sigmas_(std::move(sigmas)),
        options_(options) {}

  // Corrects the last step with the prediction at its end, then takes the next step.
  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    const size_t call = prediction.call;
    const double sigma = sigmas_[call];
    DPIPE_ASSIGN_OR_RETURN(const Tensor x0, PredictedX0(schedule_, prediction.x, prediction.output,
                                                        1 / (1 + sigma * sigma)));
    Tensor x = prediction.x;
    if (call > 0) {
      const Step step = {call - 1, order_};
      DPIPE_ASSIGN_OR_RETURN(x, Take(step, start_, CorrectorWeights(step), &x0));
    }
    estimates_.push_front(x0);
    if (static_cast<int64_t>(estimates_.size()) > options_.order) estimates_.pop_back();
    start_ = x;
    order_ = OrderOf(call);
    if (sigmas_[call + 1] == 0) return x0;  // the limit for every order
    if (sigmas_[call + 1] == sigma) return x;
    const Step step = {call, order_};
    return Take(step, x, PredictorWeights(step), nullptr);
  }

 private:
  // A step from sigmas_[from] to the next one, with the estimates at
  // sigmas_[from], sigmas_[from - 1], ...
  struct Step {
    size_t from;
    int order;
  };

  int OrderOf(size_t call) const {
    const int64_t left = static_cast<int64_t>(timesteps_.size() - call);
    const int64_t max_order =
        options_.lower_order_final ? std::min(options_.order, left) : options_.order;
    return static_cast<int>(std::min(max_order, static_cast<int64_t>(call) + 1));
  }

  double LengthOf(const Step& step) const {
    return Level{sigmas_[step.from + 1]}.log_snr() - Level{sigmas_[step.from]}.log_snr();
  }
  // Returns B(h) of a step with hh = -h.
  double B(double hh) const { return options_.is_bh1 ? hh : std::expm1(hh); }

  // Returns the position of the k-th estimate before the step's start, in step lengths from the
  // start: negative.
  double PlaceOf(const Step& step, int k) const {
    return (Level{sigmas_[step.from - k]}.log_snr() - Level{sigmas_[step.from]}.log_snr()) /
           LengthOf(step);
  }

  // Row i of the equations (theorem 3.1) has the positions to the power of i, and
  // b_i = (i + 1)! phi_(i + 2)(hh) hh / B(h).
  struct Equations {
    std::vector<std::vector<double>> a;
    std::vector<double> b;
  };
  Equations EquationsOf(const Step& step, const std::vector<double>& places) const {
    Equations equations;
    const double hh = -LengthOf(step);
    double phi = std::expm1(hh) / hh - 1;
    double factorial = 1;
    for (size_t i = 0; i < places.size(); ++i) {
      std::vector<double> row;
      for (double place : places) row.push_back(std::pow(place, static_cast<double>(i)));
      equations.a.push_back(row);
      equations.b.push_back(phi * factorial / B(hh));
      factorial *= static_cast<double>(i + 2);
      phi = phi / hh - 1 / factorial;
    }
    return equations;
  }

  std::vector<double> Places(const Step& step) const {
    std::vector<double> places;
    for (int k = 1; k < step.order; ++k) places.push_back(PlaceOf(step, k));
    return places;
  }

  // Returns the weights of the order - 1 differences to earlier estimates.
  std::vector<double> PredictorWeights(const Step& step) const {
    if (step.order == 1) return {};
    if (step.order == 2) return {0.5};  // diffusers' simplification
    const Equations equations = EquationsOf(step, Places(step));
    return Solve(equations.a, equations.b);
  }
  // Returns the same, followed by the weight of the difference to the estimate at the step's end.
  std::vector<double> CorrectorWeights(const Step& step) const {
    if (step.order == 1) return {0.5};
    std::vector<double> places = Places(step);
    places.push_back(1);
    const Equations equations = EquationsOf(step, places);
    return Solve(equations.a, equations.b);
  }

  // Returns x at the step's end, from `x` at its start. estimates_[0] is the estimate at the start.
  absl::StatusOr<Tensor> Take(const Step& step, const Tensor& x, const std::vector<double>& weights,
                              const Tensor* at_end) const {
    const Level from = {sigmas_[step.from]}, to = {sigmas_[step.from + 1]};
    const double hh = -LengthOf(step);
    const double unit = -to.alpha() * B(hh);
    double of_start = -to.alpha() * std::expm1(hh);
    std::vector<std::pair<double, Tensor>> terms = {{to.deviation() / from.deviation(), x}};
    for (int k = 1; k < step.order; ++k) {
      const double weight = unit * weights[k - 1] / PlaceOf(step, k);
      terms.emplace_back(weight, estimates_[k]);
      of_start -= weight;
    }
    if (at_end != nullptr) {
      terms.emplace_back(unit * weights.back(), *at_end);
      of_start -= unit * weights.back();
    }
    terms.emplace_back(of_start, estimates_[0]);
    return WeightedSum(terms);
  }

  const NoiseSchedule& schedule_;
  const std::vector<double> sigmas_;
  const Options options_;
  Tensor start_;                  // x at the last step's start, corrected
  int order_ = 0;                 // of the last step
  std::deque<Tensor> estimates_;  // of x0, newest first
};

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const NoiseSchedule& schedule = *setup.schedule;
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(schedule));
  Options options;
  options.order = keys.PositiveInt("solver_order", 2);
  if (options.order > 3) keys.AddProblem("solver_order", "expected 1, 2 or 3");
  options.is_bh1 = keys.String("solver_type", "bh2") == "bh1";
  options.lower_order_final = keys.Bool("lower_order_final", true);
  const bool is_karras = schedule.options().use_karras_sigmas;
  const bool is_exponential = !is_karras && keys.Bool("use_exponential_sigmas", false);
  const bool ends_at_min = keys.String("final_sigmas_type", "zero") == "sigma_min";
  DPIPE_RETURN_IF_ERROR(keys.status());
  std::vector<double> timesteps, sigmas;
  if (is_karras || is_exponential) {
    DPIPE_RETURN_IF_ERROR(CheckNumSteps(schedule, setup.num_steps));
    for (const NoiseLevel& level : is_karras ? KarrasNoiseLevels(schedule, setup.num_steps)
                                             : ExponentialNoiseLevels(schedule, setup.num_steps)) {
      timesteps.push_back(is_karras ? RoundedTimestep(level.timestep)
                                    : TruncatedTimestep(level.timestep));
      sigmas.push_back(level.sigma);
    }
  } else {
    Spread spread = {SpacingOr(schedule, TimestepSpacing::kLinspace), setup.num_steps};
    spread.drops_last = true;
    DPIPE_ASSIGN_OR_RETURN(timesteps, SpreadTimesteps(schedule, spread));
    for (double t : timesteps) sigmas.push_back(SigmaAt(schedule, static_cast<int>(t)));
  }
  sigmas.push_back(ends_at_min ? SigmaAt(schedule, 0) : 0);
  return std::make_unique<UniPc>(schedule, std::move(timesteps), std::move(sigmas), options);
}

}  // namespace

SamplerInfo UniPcSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kUniPc;
  info.name = "unipc";
  info.classes = {"UniPCMultistepScheduler"};
  info.followed = {{"disable_corrector", {"[]"}}, {"predict_x0", {"true"}},
                   {"sigma_max", {"null"}},       {"sigma_min", {"null"}},
                   {"solver_p", {"null"}},        {"use_beta_sigmas", {"false"}}};
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
