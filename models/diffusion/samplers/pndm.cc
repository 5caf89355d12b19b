// Pseudo numerical methods (PNDM; Liu et al., arXiv 2202.09778), as in diffusers' PNDMScheduler.
// The first three steps are Runge-Kutta steps of four calls each; a linear multistep method
// follows. With skip_prk_steps (Stable Diffusion's setting) all steps are multistep. The first ones
// are of lower order, and a second call at the second timestep corrects the first step.
#include <algorithm>
#include <cmath>
#include <deque>

#include "absl/strings/str_cat.h"
#include "models/diffusion/noise_levels.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {
namespace {

constexpr size_t kRungeKuttaCalls = 12;

class Pndm : public Solver {
 public:
  // `stride`: timesteps per step.
  Pndm(const NoiseSchedule& schedule, std::vector<double> timesteps, bool has_runge_kutta,
       int stride)
      : Solver(std::move(timesteps)),
        schedule_(schedule),
        has_runge_kutta_(has_runge_kutta),
        stride_(stride) {}

  absl::StatusOr<Tensor> Advance(const Prediction& prediction) override {
    return has_runge_kutta_ && prediction.call < kRungeKuttaCalls ? RungeKutta(prediction)
                                                                  : Multistep(prediction);
  }

 private:
  // The four calls of a step are at its beginning, twice at its middle, and at its end. Each steps
  // from the beginning. The first three use their own outputs, the last one the mean of all,
  // weighted 1:2:2:1.
  absl::StatusOr<Tensor> RungeKutta(const Prediction& prediction) {
    const int c = static_cast<int>(prediction.call % 4);
    const int from = Timestep(prediction.call - c);
    const int to = Timestep(prediction.call) - (c % 2 == 0 ? stride_ / 2 : 0);
    if (c == 0) {
      start_ = prediction.x;
      Remember(prediction.output);
      sum_.clear();
    }
    sum_.emplace_back(c == 0 || c == 3 ? 1.0 / 6 : 1.0 / 3, prediction.output);
    if (c != 3) return Step(start_, from, to, prediction.output);
    DPIPE_ASSIGN_OR_RETURN(const Tensor mean, WeightedSum(sum_));
    return Step(start_, from, to, mean);
  }

  // Adams-Bashforth over the last outputs, at most four.
  absl::StatusOr<Tensor> Multistep(const Prediction& prediction) {
    const int t = Timestep(prediction.call);
    if (!has_runge_kutta_ && prediction.call == 1) {
      // Repeats the first step with the mean of the predictions at both of its ends.
      DPIPE_ASSIGN_OR_RETURN(const Tensor mean, Combine(0.5, prediction.output, 0.5, outputs_[0]));
      return Step(start_, t + stride_, t, mean);
    }
    if (prediction.call == 0) start_ = prediction.x;
    Remember(prediction.output);
    static const std::vector<double> kWeights[] = {{1},
                                                   {3.0 / 2, -1.0 / 2},
                                                   {23.0 / 12, -16.0 / 12, 5.0 / 12},
                                                   {55.0 / 24, -59.0 / 24, 37.0 / 24, -9.0 / 24}};
    std::vector<std::pair<double, Tensor>> terms;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      terms.emplace_back(kWeights[outputs_.size() - 1][i], outputs_[i]);
    }
    DPIPE_ASSIGN_OR_RETURN(const Tensor output, WeightedSum(terms));
    return Step(prediction.x, t, t - stride_, output);
  }

  // Equation 11, from one timestep to another; below 0 is the end of the schedule.
  absl::StatusOr<Tensor> Step(const Tensor& x, int from, int to, const Tensor& output) const {
    const double alpha = AlphaAt(from);
    const double next = to < 0 ? schedule_.final_alpha_cumprod() : AlphaAt(to);
    const double x_weight = std::sqrt(next / alpha);
    const double noise_weight =
        -(next - alpha) / (alpha * std::sqrt(1 - next) + std::sqrt(alpha * (1 - alpha) * next));
    if (schedule_.options().prediction_type == PredictionType::kEpsilon) {
      return Combine(x_weight, x, noise_weight, output);
    }
    // The noise is sqrt(alpha) v + sqrt(1 - alpha) x.
    return Combine(x_weight + noise_weight * std::sqrt(1 - alpha), x,
                   noise_weight * std::sqrt(alpha), output);
  }

  double AlphaAt(int t) const {
    return std::max(schedule_.alpha_cumprod(std::min(t, schedule_.num_timesteps() - 1)),
                    kMinAlphaCumprod);
  }
  int Timestep(size_t call) const { return static_cast<int>(timesteps_[call]); }
  void Remember(const Tensor& output) {
    outputs_.push_front(output);
    if (outputs_.size() > 4) outputs_.pop_back();
  }

  const NoiseSchedule& schedule_;
  const bool has_runge_kutta_;
  const int stride_;
  Tensor start_;                                // x before a step that takes several calls
  std::vector<std::pair<double, Tensor>> sum_;  // of a Runge-Kutta step
  std::deque<Tensor> outputs_;                  // newest first
};

// Returns the timesteps of the calls, given those of the steps, which decrease.
std::vector<double> CallsOf(const std::vector<double>& steps, bool has_runge_kutta, int stride) {
  if (!has_runge_kutta) {
    std::vector<double> calls = steps;
    if (steps.size() > 1) calls.insert(calls.begin() + 1, steps[1]);
    return calls;
  }
  std::vector<double> calls;
  for (int i = 0; i < 3; ++i) {
    const double middle = steps[i + 1] + stride / 2;
    calls.insert(calls.end(), {steps[i], middle, middle, steps[i + 1]});
  }
  calls.insert(calls.end(), steps.begin() + 3, steps.end());
  return calls;
}

absl::StatusOr<std::unique_ptr<Solver>> Make(const SolverSetup& setup) {
  const NoiseSchedule& schedule = *setup.schedule;
  DPIPE_ASSIGN_OR_RETURN(models::ComponentConfig keys, SamplerKeys(schedule));
  const bool has_runge_kutta = !keys.Bool("skip_prk_steps", false);
  DPIPE_RETURN_IF_ERROR(keys.status());
  const Spread spread = {SpacingOr(schedule, TimestepSpacing::kLeading), setup.num_steps};
  DPIPE_ASSIGN_OR_RETURN(const std::vector<double> steps, SpreadTimesteps(schedule, spread));
  if (has_runge_kutta && setup.num_steps < 4) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sampling in ", setup.num_steps, " steps; PNDM without skip_prk_steps needs 4 or more"));
  }
  const int stride = schedule.num_timesteps() / setup.num_steps;
  return std::make_unique<Pndm>(schedule, CallsOf(steps, has_runge_kutta, stride), has_runge_kutta,
                                stride);
}

}  // namespace

SamplerInfo PndmSampler() {
  SamplerInfo info;
  info.kind = SamplerKind::kPndm;
  info.name = "pndm";
  info.classes = {"PNDMScheduler"};
  info.draws_from_x0 = false;
  info.make = Make;
  return info;
}

}  // namespace dpipe::diffusion
