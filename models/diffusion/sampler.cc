#include "models/diffusion/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/combine.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/karras_sigmas.h"
#include "models/diffusion/noising.h"

namespace dpipe::diffusion {
namespace {

// One weight for all samples.
absl::StatusOr<Tensor> Combine(double a, const Tensor& x, double b, const Tensor& y) {
  const std::vector<float> x_weights(x.dim(0), static_cast<float>(a));
  const std::vector<float> y_weights(x.dim(0), static_cast<float>(b));
  return ops::CombineSamples(x_weights, x, y_weights, y, DType::kF32);
}

absl::StatusOr<Tensor> ClippedX0(const NoiseSchedule& schedule, const Tensor& x,
                                 const Tensor& prediction, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(Tensor x0, PredictedX0(schedule, x, prediction, timesteps));
  if (!schedule.options().clip_sample) return x0;
  const float limit = static_cast<float>(schedule.options().clip_sample_range);
  for (float& v : x0.span<float>()) v = std::min(limit, std::max(-limit, v));
  return x0;
}

// One step of a sampler, from x at one noise level to the next.
struct Step {
  int index;
  double alpha;       // abar here
  double alpha_next;  // abar at the next level, or where the sampler ends
};

// What a multistep sampler remembers of the step before.
struct History {
  Tensor x0;  // undefined before the first step
  double log_snr = 0;
};

// What the i-th step adds afresh, scaled to deviation `sigma`.
absl::StatusOr<Tensor> AddFreshNoise(const SamplerOptions& options, const Step& step, double sigma,
                                     const Tensor& x) {
  if (sigma == 0) return x;
  const Tensor noise = DrawNoise(x.device(), options.seed, step.index, options.first_sample,
                                 x.shape(), RandomPurpose::kSample);
  return Combine(1, x, sigma, noise);
}

// The variance of x at the next timestep given x at this one and x0.
double PosteriorVariance(const Step& step) {
  return (1 - step.alpha_next) / (1 - step.alpha) * (1 - step.alpha / step.alpha_next);
}

// Equation 12 of arXiv 2010.02502.
absl::StatusOr<Tensor> DdimStep(const NoiseSchedule& schedule, const SamplerOptions& options,
                                const Step& step, const Tensor& x, const Tensor& prediction,
                                const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor x0, ClippedX0(schedule, x, prediction, timesteps));
  DPIPE_ASSIGN_OR_RETURN(const Tensor noise, PredictedNoise(schedule, x, prediction, timesteps));
  const double variance = options.eta * options.eta * PosteriorVariance(step);
  const double direction = std::sqrt(std::max(0.0, 1 - step.alpha_next - variance));
  DPIPE_ASSIGN_OR_RETURN(const Tensor mean,
                         Combine(std::sqrt(step.alpha_next), x0, direction, noise));
  return AddFreshNoise(options, step, std::sqrt(variance), mean);
}

// Equation 7 of arXiv 2006.11239, with the posterior's variance.
absl::StatusOr<Tensor> DdpmStep(const NoiseSchedule& schedule, const SamplerOptions& options,
                                const Step& step, const Tensor& x, const Tensor& prediction,
                                const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor x0, ClippedX0(schedule, x, prediction, timesteps));
  const double alpha_step = step.alpha / step.alpha_next;
  const double x0_weight = std::sqrt(step.alpha_next) * (1 - alpha_step) / (1 - step.alpha);
  const double x_weight = std::sqrt(alpha_step) * (1 - step.alpha_next) / (1 - step.alpha);
  DPIPE_ASSIGN_OR_RETURN(const Tensor mean, Combine(x0_weight, x0, x_weight, x));
  return AddFreshNoise(options, step, std::sqrt(PosteriorVariance(step)), mean);
}

// Half the logarithm of the signal-to-noise ratio, the time that DPM-Solver++ steps in.
double HalfLogSnr(double alpha) { return 0.5 * std::log(alpha / (1 - alpha)); }

// Algorithm 2 of arXiv 2211.01095; of first order at the first step, and at the last, which ends
// without noise. diffusers' scheduler knows no clip_sample.
absl::StatusOr<Tensor> DpmSolverStep(const NoiseSchedule& schedule, const Step& step,
                                     const Tensor& x, const Tensor& prediction, History* history) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor x0, PredictedX0(schedule, x, prediction, step.alpha));
  if (step.alpha_next == 1) return x0;
  const double now = HalfLogSnr(step.alpha), next = HalfLogSnr(step.alpha_next);
  const double length = next - now;
  Tensor direction = x0;
  if (history->x0.defined()) {
    const double ahead = length / (2 * (now - history->log_snr));
    DPIPE_ASSIGN_OR_RETURN(direction, Combine(1 + ahead, x0, -ahead, history->x0));
  }
  *history = {x0, now};
  const double x_weight = std::sqrt((1 - step.alpha_next) / (1 - step.alpha));
  return Combine(x_weight, x, -std::sqrt(step.alpha_next) * std::expm1(-length), direction);
}

absl::StatusOr<Tensor> Advance(const NoiseSchedule& schedule, const SamplerOptions& options,
                               const Step& step, const Tensor& x, const Tensor& prediction,
                               const Tensor& timesteps, History* history) {
  switch (options.kind) {
    case SamplerKind::kDdim:
      return DdimStep(schedule, options, step, x, prediction, timesteps);
    case SamplerKind::kDdpm:
      return DdpmStep(schedule, options, step, x, prediction, timesteps);
    case SamplerKind::kDpmSolver:
      return DpmSolverStep(schedule, step, x, prediction, history);
  }
  return absl::InternalError("a sampler of no kind");
}

bool UsesKarrasSigmas(const NoiseSchedule& schedule, SamplerKind kind) {
  return kind == SamplerKind::kDpmSolver && schedule.options().use_karras_sigmas;
}

// abar at each of the timesteps visited, or with Karras sigmas where the model is told of them.
std::vector<double> VisitedAlphas(const NoiseSchedule& schedule, SamplerKind kind,
                                  const std::vector<int>& timesteps) {
  std::vector<double> alphas;
  if (UsesKarrasSigmas(schedule, kind)) {
    for (const NoiseLevel& level :
         KarrasNoiseLevels(schedule, static_cast<int>(timesteps.size()))) {
      alphas.push_back(1 / (1 + level.sigma * level.sigma));
    }
    return alphas;
  }
  for (int t : timesteps) {
    const double a = schedule.alpha_cumprod(t);
    alphas.push_back(a == 0 && kind == SamplerKind::kDpmSolver ? kLeastAlphaCumprod : a);
  }
  return alphas;
}

// Where the step from timesteps[i] ends. DDIM steps by num_timesteps / num_steps, rounded down,
// whatever the spacing, and ends at the schedule's final value; the others step from level to level
// and end without noise.
double NextAlpha(const NoiseSchedule& schedule, SamplerKind kind, const std::vector<int>& timesteps,
                 const std::vector<double>& alphas, size_t i) {
  if (kind == SamplerKind::kDdim) {
    const int next = timesteps[i] - schedule.num_timesteps() / static_cast<int>(timesteps.size());
    return next < 0 ? schedule.final_alpha_cumprod() : schedule.alpha_cumprod(next);
  }
  return i + 1 < alphas.size() ? alphas[i + 1] : 1;
}

}  // namespace

PredictFn WithGuidance(PredictFn predict, float scale) {
  if (!IsGuided(scale)) return predict;
  return [predict = std::move(predict), scale](const Tensor& x_t,
                                               const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    const int64_t batch = x_t.dim(0);
    DPIPE_ASSIGN_OR_RETURN(const Tensor both,
                           predict(ConcatBatch({x_t, x_t}), ConcatBatch({timesteps, timesteps})));
    DPIPE_CHECK_EQ(both.dim(0), 2 * batch) << "guidance needs a prediction for each half";
    return Combine(1 - scale, both.Slice(0, batch), scale, both.Slice(batch, 2 * batch));
  };
}

absl::StatusOr<SamplerKind> ParseSamplerKind(absl::string_view name) {
  if (name == "ddim") return SamplerKind::kDdim;
  if (name == "ddpm") return SamplerKind::kDdpm;
  if (name == "dpm++") return SamplerKind::kDpmSolver;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown sampler '", name, "'; there are ddim, ddpm and dpm++"));
}

absl::StatusOr<std::vector<int>> InferenceTimesteps(const NoiseSchedule& schedule, int num_steps,
                                                    SamplerKind kind) {
  const int total = schedule.num_timesteps();
  if (num_steps < 1 || num_steps > total) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling in ", num_steps, " steps; the schedule allows 1 to ", total));
  }
  std::vector<int> timesteps;
  if (UsesKarrasSigmas(schedule, kind)) {
    for (const NoiseLevel& level : KarrasNoiseLevels(schedule, num_steps)) {
      timesteps.push_back(level.timestep);
    }
    return timesteps;
  }
  const NoiseScheduleOptions& options = schedule.options();
  const bool dpm_solver = kind == SamplerKind::kDpmSolver;
  const TimestepSpacing spacing = options.timestep_spacing.value_or(
      dpm_solver ? TimestepSpacing::kLinspace : TimestepSpacing::kLeading);
  // Timesteps that are left out at the end.
  const int left_out = dpm_solver ? 1 : 0;
  const int spread = num_steps + left_out;
  // Divided first, as numpy's linspace does: a place at a half can round another way otherwise.
  const double spacing_step = spread == 1 ? 0 : (total - 1.0) / (spread - 1);
  timesteps.resize(num_steps);
  for (int i = 0; i < num_steps; ++i) {
    const int rest = spread - 1 - i;  // steps after this one
    switch (spacing) {
      case TimestepSpacing::kLeading:
        timesteps[i] = rest * (total / spread) + options.steps_offset;
        break;
      case TimestepSpacing::kTrailing:
        timesteps[i] =
            static_cast<int>(std::nearbyint(total - i * (static_cast<double>(total) / num_steps))) -
            1;
        break;
      case TimestepSpacing::kLinspace:
        timesteps[i] = static_cast<int>(std::nearbyint(rest * spacing_step));
        break;
    }
  }
  if (timesteps.front() >= total) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sampling in ", num_steps, " steps with a steps_offset of ", options.steps_offset,
        " starts at timestep ", timesteps.front(), " of ", total));
  }
  return timesteps;
}

absl::StatusOr<Tensor> Sample(const NoiseSchedule& schedule, const SamplerOptions& options,
                              const Tensor& noise, const PredictFn& predict) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> visited,
                         InferenceTimesteps(schedule, options.num_steps, options.kind));
  DPIPE_CHECK(noise.dtype() == DType::kF32) << "noise of " << DTypeName(noise.dtype());
  if (noise.device()->kind() == DeviceKind::kCuda) {
    return absl::UnimplementedError("samplers keep x in host memory; give them a CPU device");
  }
  const std::vector<double> alphas = VisitedAlphas(schedule, options.kind, visited);
  Tensor x = noise;
  History history;
  for (size_t i = 0; i < visited.size(); ++i) {
    const Step step = {static_cast<int>(i), alphas[i],
                       NextAlpha(schedule, options.kind, visited, alphas, i)};
    const std::vector<int32_t> same(x.dim(0), visited[i]);
    const Tensor timesteps = Tensor::FromHost<int32_t>(x.device(), {x.dim(0)}, same);
    DPIPE_ASSIGN_OR_RETURN(const Tensor prediction, predict(x, timesteps));
    DPIPE_CHECK_EQ(prediction.shape(), x.shape()) << "prediction of a sampler's model";
    DPIPE_ASSIGN_OR_RETURN(x, Advance(schedule, options, step, x, prediction, timesteps, &history));
    if (options.on_step) options.on_step(step.index, x);
  }
  return x;
}

}  // namespace dpipe::diffusion
