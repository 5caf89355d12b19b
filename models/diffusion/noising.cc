#include "models/diffusion/noising.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/combine.h"

namespace dpipe::diffusion {
namespace {

// sqrt(abar_t) and sqrt(1 - abar_t) of each sample.
struct Roots {
  std::vector<double> signal, noise;
};

absl::StatusOr<Roots> RootsAt(const NoiseSchedule& schedule, const Tensor& timesteps,
                              int64_t batch) {
  DPIPE_CHECK(timesteps.dtype() == DType::kI32) << "timesteps of " << DTypeName(timesteps.dtype());
  DPIPE_CHECK_EQ(timesteps.shape(), (Shape{batch}));
  Roots roots;
  for (int32_t t : timesteps.span<int32_t>()) {
    if (t < 0 || t >= schedule.num_timesteps()) {
      return absl::InvalidArgumentError(
          absl::StrCat("timestep ", t, " is outside [0, ", schedule.num_timesteps(), ")"));
    }
    const double a = schedule.alpha_cumprod(t);
    roots.signal.push_back(std::sqrt(a));
    roots.noise.push_back(std::sqrt(1 - a));
  }
  return roots;
}

std::vector<float> ToFloat(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

std::vector<float> Negated(const std::vector<double>& values) {
  std::vector<float> result = ToFloat(values);
  for (float& v : result) v = -v;
  return result;
}

// (x - subtracted_root * y) / root, sample by sample.
absl::StatusOr<Tensor> Solve(const Tensor& x, const std::vector<double>& subtracted_root,
                             const Tensor& y, const std::vector<double>& root, const char* wanted) {
  std::vector<float> a, b;
  for (size_t i = 0; i < root.size(); ++i) {
    if (root[i] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", i, " is at a timestep whose x_t does not depend on ", wanted));
    }
    a.push_back(static_cast<float>(1 / root[i]));
    b.push_back(static_cast<float>(-subtracted_root[i] / root[i]));
  }
  return ops::CombineSamples(a, x, b, y, DType::kF32);
}

}  // namespace

absl::StatusOr<Tensor> AddNoise(const NoiseSchedule& schedule, const Tensor& x0,
                                const Tensor& noise, const Tensor& timesteps, DType dtype) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x0.dim(0)));
  return ops::CombineSamples(ToFloat(roots.signal), x0, ToFloat(roots.noise), noise, dtype);
}

absl::StatusOr<Tensor> TrainingTarget(const NoiseSchedule& schedule, const Tensor& x0,
                                      const Tensor& noise, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x0.dim(0)));
  switch (schedule.options().prediction_type) {
    case PredictionType::kEpsilon:
      return noise.To(DType::kF32);
    case PredictionType::kSample:
      return x0.To(DType::kF32);
    case PredictionType::kV:
      break;
  }
  return ops::CombineSamples(ToFloat(roots.signal), noise, Negated(roots.noise), x0, DType::kF32);
}

absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x_t.dim(0)));
  switch (schedule.options().prediction_type) {
    case PredictionType::kEpsilon:
      return Solve(x_t, roots.noise, prediction, roots.signal, "x0");
    case PredictionType::kSample:
      return prediction.To(DType::kF32);
    case PredictionType::kV:
      break;
  }
  return ops::CombineSamples(ToFloat(roots.signal), x_t, Negated(roots.noise), prediction,
                             DType::kF32);
}

absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x_t.dim(0)));
  switch (schedule.options().prediction_type) {
    case PredictionType::kEpsilon:
      return prediction.To(DType::kF32);
    case PredictionType::kSample:
      return Solve(x_t, roots.signal, prediction, roots.noise, "the noise");
    case PredictionType::kV:
      break;
  }
  return ops::CombineSamples(ToFloat(roots.noise), x_t, ToFloat(roots.signal), prediction,
                             DType::kF32);
}

absl::StatusOr<Tensor> MinSnrWeights(const NoiseSchedule& schedule, double gamma,
                                     const Tensor& timesteps) {
  if (!(gamma > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("min-SNR gamma is ", gamma, "; it must be above 0"));
  }
  DPIPE_RETURN_IF_ERROR(RootsAt(schedule, timesteps, timesteps.dim(0)).status());
  Tensor weights = Tensor::Empty(timesteps.device(), timesteps.shape(), DType::kF32);
  for (int64_t b = 0; b < timesteps.dim(0); ++b) {
    const double snr = schedule.snr(timesteps.data<int32_t>()[b]);
    double weight = std::min(snr, gamma);
    if (schedule.options().prediction_type == PredictionType::kEpsilon) {
      weight = snr <= gamma ? 1 : gamma / snr;  // 1 also in the limit of pure noise
    } else if (schedule.options().prediction_type == PredictionType::kV) {
      weight /= snr + 1;
    }
    weights.data<float>()[b] = static_cast<float>(weight);
  }
  return weights;
}

}  // namespace dpipe::diffusion
