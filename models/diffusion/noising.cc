#include "models/diffusion/noising.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/diffusion/diffusion.h"

namespace dpipe::diffusion {
namespace {

// Checks timesteps if the host can read them. Otherwise samples at invalid timesteps become NaNs.
absl::Status CheckTimesteps(const NoiseSchedule& schedule, const Tensor& timesteps, int64_t batch) {
  DPIPE_CHECK(timesteps.dtype() == DType::kI32) << "timesteps of " << DTypeName(timesteps.dtype());
  DPIPE_CHECK_EQ(timesteps.shape(), (Shape{batch}));
  if (!timesteps.device()->has_host_memory()) return absl::OkStatus();
  for (int32_t t : timesteps.span<int32_t>()) {
    if (t < 0 || t >= schedule.num_timesteps()) {
      return absl::InvalidArgumentError(
          absl::StrCat("timestep ", t, " is outside [0, ", schedule.num_timesteps(), ")"));
    }
  }
  return absl::OkStatus();
}

// Returns f(t) of each sample, fp32 [B], on the timesteps' device. Sends a table of all timesteps
// there, so that the host does not wait for the device.
template <typename F>
absl::StatusOr<Tensor> At(const NoiseSchedule& schedule, const Tensor& timesteps, const F& f) {
  std::vector<float> table(schedule.num_timesteps());
  for (size_t t = 0; t < table.size(); ++t) table[t] = static_cast<float>(f(static_cast<int>(t)));
  return ops::LookUp(table, timesteps);
}

// Returns sqrt(abar) x + y_factor sqrt(1 - abar) y.
absl::StatusOr<Tensor> Mix(const NoiseSchedule& schedule, const Tensor& timesteps, const Tensor& x,
                           double y_factor, const Tensor& y, DType dtype) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor a, At(schedule, timesteps, [&](int t) {
                           return std::sqrt(schedule.alpha_cumprod(t));
                         }));
  DPIPE_ASSIGN_OR_RETURN(const Tensor b, At(schedule, timesteps, [&](int t) {
                           return y_factor * std::sqrt(1 - schedule.alpha_cumprod(t));
                         }));
  return ops::CombineSamples(a, x, b, y, dtype);
}

// sqrt(abar_t) and sqrt(1 - abar_t) of each sample.
struct Roots {
  std::vector<double> signal, noise;
};

absl::StatusOr<Roots> RootsAt(const NoiseSchedule& schedule, const Tensor& timesteps,
                              int64_t batch) {
  const Tensor on_host = timesteps.ToHost();
  DPIPE_RETURN_IF_ERROR(CheckTimesteps(schedule, on_host, batch));
  Roots roots;
  for (int32_t t : on_host.span<int32_t>()) {
    const double a = schedule.alpha_cumprod(t);
    roots.signal.push_back(std::sqrt(a));
    roots.noise.push_back(std::sqrt(1 - a));
  }
  return roots;
}

Roots SameRoots(double alpha_cumprod, int64_t batch) {
  return {std::vector<double>(batch, std::sqrt(alpha_cumprod)),
          std::vector<double>(batch, std::sqrt(1 - alpha_cumprod))};
}

std::vector<float> ToFloat(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

std::vector<float> Negated(const std::vector<double>& values) {
  std::vector<float> result = ToFloat(values);
  for (float& v : result) v = -v;
  return result;
}

// Returns (x - subtracted_root * y) / root for each sample.
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

absl::StatusOr<Tensor> X0From(PredictionType type, const Roots& roots, const Tensor& x_t,
                              const Tensor& prediction) {
  switch (type) {
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

absl::StatusOr<Tensor> NoiseFrom(PredictionType type, const Roots& roots, const Tensor& x_t,
                                 const Tensor& prediction) {
  switch (type) {
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

}  // namespace

absl::StatusOr<Tensor> AddNoise(const NoiseSchedule& schedule, const Tensor& x0,
                                const Tensor& noise, const Tensor& timesteps, DType dtype) {
  DPIPE_RETURN_IF_ERROR(CheckTimesteps(schedule, timesteps, x0.dim(0)));
  return Mix(schedule, timesteps, x0, 1, noise, dtype);
}

absl::StatusOr<Tensor> TrainingTarget(const NoiseSchedule& schedule, const Tensor& x0,
                                      const Tensor& noise, const Tensor& timesteps) {
  DPIPE_RETURN_IF_ERROR(CheckTimesteps(schedule, timesteps, x0.dim(0)));
  switch (schedule.options().prediction_type) {
    case PredictionType::kEpsilon:
      return noise.To(DType::kF32);
    case PredictionType::kSample:
      return x0.To(DType::kF32);
    case PredictionType::kV:
      break;
  }
  return Mix(schedule, timesteps, noise, -1, x0, DType::kF32);
}

absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x_t.dim(0)));
  return X0From(schedule.options().prediction_type, roots, x_t, prediction);
}

absl::StatusOr<Tensor> PredictedX0(const NoiseSchedule& schedule, const Tensor& x_t,
                                   const Tensor& prediction, double alpha_cumprod) {
  return X0From(schedule.options().prediction_type, SameRoots(alpha_cumprod, x_t.dim(0)), x_t,
                prediction);
}

absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, const Tensor& timesteps) {
  DPIPE_ASSIGN_OR_RETURN(const Roots roots, RootsAt(schedule, timesteps, x_t.dim(0)));
  return NoiseFrom(schedule.options().prediction_type, roots, x_t, prediction);
}

absl::StatusOr<Tensor> PredictedNoise(const NoiseSchedule& schedule, const Tensor& x_t,
                                      const Tensor& prediction, double alpha_cumprod) {
  return NoiseFrom(schedule.options().prediction_type, SameRoots(alpha_cumprod, x_t.dim(0)), x_t,
                   prediction);
}

absl::StatusOr<Tensor> MinSnrWeights(const NoiseSchedule& schedule, double gamma,
                                     const Tensor& timesteps) {
  if (!(gamma > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("min-SNR gamma is ", gamma, "; it must be above 0"));
  }
  DPIPE_RETURN_IF_ERROR(CheckTimesteps(schedule, timesteps, timesteps.dim(0)));
  return At(schedule, timesteps, [&](int t) {
    const double snr = schedule.snr(t);
    const double weight = std::min(snr, gamma);
    switch (schedule.options().prediction_type) {
      case PredictionType::kEpsilon:
        return snr <= gamma ? 1 : gamma / snr;  // also the limit for pure noise
      case PredictionType::kV:
        return weight / (snr + 1);
      case PredictionType::kSample:
        break;
    }
    return weight;
  });
}

}  // namespace dpipe::diffusion
