#include "models/diffusion/samplers/solver.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/ops/diffusion/diffusion.h"
#include "models/diffusion/noising.h"

namespace dpipe::diffusion {

absl::StatusOr<models::ComponentConfig> SamplerKeys(const NoiseSchedule& schedule) {
  return models::ComponentConfig::Parse(schedule.options().json, "scheduler_config.json");
}

absl::StatusOr<Tensor> Combine(double a, const Tensor& x, double b, const Tensor& y) {
  const std::vector<float> x_weights(x.dim(0), static_cast<float>(a));
  const std::vector<float> y_weights(x.dim(0), static_cast<float>(b));
  return ops::CombineSamples(x_weights, x, y_weights, y, DType::kF32);
}

absl::StatusOr<Tensor> WeightedSum(const std::vector<std::pair<double, Tensor>>& terms) {
  DPIPE_CHECK(!terms.empty());
  const auto& [first_weight, first] = terms[0];
  if (terms.size() == 1) return Combine(first_weight, first, 0, first);
  DPIPE_ASSIGN_OR_RETURN(Tensor sum, Combine(first_weight, first, terms[1].first, terms[1].second));
  for (size_t i = 2; i < terms.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(sum, Combine(1, sum, terms[i].first, terms[i].second));
  }
  return sum;
}

absl::StatusOr<Tensor> AddFreshNoise(const Prediction& prediction, double deviation,
                                     const Tensor& x) {
  if (deviation == 0) return x;
  return Combine(1, x, deviation, prediction.fresh_noise());
}

absl::StatusOr<Tensor> ClippedX0(const NoiseSchedule& schedule, const Prediction& prediction,
                                 double alpha_cumprod) {
  DPIPE_ASSIGN_OR_RETURN(Tensor x0,
                         PredictedX0(schedule, prediction.x, prediction.output, alpha_cumprod));
  if (!schedule.options().clip_sample) return x0;
  const float limit = static_cast<float>(schedule.options().clip_sample_range);
  for (float& v : x0.span<float>()) v = std::min(limit, std::max(-limit, v));
  return x0;
}

}  // namespace dpipe::diffusion
