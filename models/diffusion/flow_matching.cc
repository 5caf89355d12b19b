#include "models/diffusion/flow_matching.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/ops/diffusion/diffusion.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::diffusion {
namespace {

constexpr double kPi = 3.14159265358979323846;
// Above it, mode's curve is not monotone any more (arXiv 2403.03206, section 3.1).
constexpr double kMaxModeScale = 2 / (kPi - 2);

}  // namespace

absl::StatusOr<Tensor> FlowInput(const Tensor& x0, const Tensor& noise, const Tensor& levels,
                                 DType dtype) {
  DPIPE_CHECK_EQ(levels.shape(), (Shape{x0.dim(0)}));
  DPIPE_ASSIGN_OR_RETURN(Tensor shares, ops::Scale(-1.0f, levels));
  // A table instead of a copy from the host, which CUDA graphs cannot record.
  const Tensor zeros = Tensor::Zeros(levels.device(), levels.shape(), DType::kI32);
  DPIPE_ASSIGN_OR_RETURN(const Tensor one, ops::LookUp({1.0f}, zeros));
  DPIPE_ASSIGN_OR_RETURN(shares, ops::Add(one, shares));
  return ops::CombineSamples(shares, x0, levels, noise, dtype);
}

absl::StatusOr<Tensor> FlowTarget(const Tensor& x0, const Tensor& noise) {
  const std::vector<float> plus(x0.dim(0), 1.0f), minus(x0.dim(0), -1.0f);
  return ops::CombineSamples(plus, noise, minus, x0, DType::kF32);
}

absl::StatusOr<FlowWeight> ParseFlowWeight(absl::string_view name) {
  if (name == "none") return FlowWeight::kOne;
  if (name == "sigma_sqrt") return FlowWeight::kSigmaSqrt;
  if (name == "cosmap") return FlowWeight::kCosmap;
  return absl::InvalidArgumentError(absl::StrCat("unknown loss weight '", std::string(name),
                                                 "'; use none, sigma_sqrt or cosmap"));
}

absl::StatusOr<FlowLevels> FlowLevels::Create(const FlowSchedule& schedule,
                                              const FlowSamplingOptions& o) {
  if (!std::isfinite(o.logit_mean) || !(o.logit_std > 0) || !std::isfinite(o.logit_std)) {
    return absl::InvalidArgumentError(absl::StrCat("logit_mean ", o.logit_mean, ", logit_std ",
                                                   o.logit_std,
                                                   "; expected a number and one above 0"));
  }
  if (!(o.mode_scale >= -1 && o.mode_scale <= kMaxModeScale)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mode_scale is ", o.mode_scale, "; expected a number from -1 to ", kMaxModeScale));
  }
  if (!(o.shift > 0) || !std::isfinite(o.shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shift is ", o.shift, "; expected a number above 0"));
  }
  return FlowLevels(schedule, o);
}

double FlowLevels::DrawDensity(uint64_t seed, uint64_t step, uint32_t sample) const {
  RandomStream random(seed, step, sample, RandomPurpose::kTimestep);
  switch (options_.density) {
    case FlowDensity::kUniform:
      return random.NextUniform();
    case FlowDensity::kLogitNormal:
      return 1 / (1 + std::exp(-(options_.logit_mean + options_.logit_std * random.NextNormal())));
    case FlowDensity::kMode: {
      const double v = random.NextUniform(), root = std::cos(kPi * v / 2);
      return 1 - v - options_.mode_scale * (root * root - 1 + v);
    }
  }
  return 0;
}

double FlowLevels::DrawLevel(uint64_t seed, uint64_t step, uint32_t sample) const {
  const std::vector<double>& table = schedule_.train_levels();
  const double u = DrawDensity(seed, step, sample);
  const auto index = static_cast<int64_t>(u * static_cast<double>(table.size()));
  const auto last = static_cast<int64_t>(table.size()) - 1;
  return ShiftLevel(options_.shift, table[std::clamp<int64_t>(index, 0, last)]);
}

Tensor FlowLevels::Draw(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                        uint32_t first_sample, int count) const {
  std::vector<float> levels;
  for (int b = 0; b < count; ++b) {
    const uint32_t sample = first_sample + static_cast<uint32_t>(b);
    levels.push_back(static_cast<float>(DrawLevel(seed, step, sample)));
  }
  return Tensor::FromHost<float>(device, {count}, levels);
}

absl::StatusOr<Tensor> FlowTimesteps(const FlowSchedule& schedule, const Tensor& levels) {
  return ops::Scale(static_cast<float>(schedule.options().num_train_timesteps), levels);
}

absl::StatusOr<Tensor> FlowWeights(FlowWeight weight, const Tensor& levels) {
  switch (weight) {
    case FlowWeight::kOne:
      break;
    case FlowWeight::kSigmaSqrt:
      return ops::InverseQuadratic(1, {0, 0, 1}, levels);
    case FlowWeight::kCosmap:
      return ops::InverseQuadratic(2 / kPi, {1, -2, 2}, levels);
  }
  return ops::InverseQuadratic(1, {1, 0, 0}, levels);
}

absl::StatusOr<Tensor> SampleFlow(const FlowSchedule& schedule, const FlowSampleOptions& options,
                                  const Tensor& noise, const PredictFn& predict) {
  DPIPE_CHECK(noise.dtype() == DType::kF32) << "noise of " << DTypeName(noise.dtype());
  if (!noise.device()->has_host_memory()) {
    return absl::UnimplementedError("samples are drawn from noise in host memory only");
  }
  Tensor x = noise.Clone();
  for (size_t i = 0; i + 1 < options.levels.size(); ++i) {
    const double level = options.levels[i], next = options.levels[i + 1];
    const std::vector<float> levels(x.dim(0), static_cast<float>(level));
    DPIPE_ASSIGN_OR_RETURN(
        const Tensor timesteps,
        FlowTimesteps(schedule, Tensor::FromHost<float>(x.device(), {x.dim(0)}, levels)));
    DPIPE_ASSIGN_OR_RETURN(const Tensor prediction, predict(x, timesteps));
    DPIPE_RETURN_IF_ERROR(ops::Axpy(static_cast<float>(next - level), prediction, &x));
    if (options.on_step) options.on_step(static_cast<int>(i), x);
  }
  return x;
}

}  // namespace dpipe::diffusion
