#include "models/diffusion/timestep_sampling.h"

#include <algorithm>
#include <cmath>

#include "core/base/philox.h"
#include "models/diffusion/draws.h"

namespace dpipe::diffusion {
namespace {

constexpr double kSpeedRatio = 5;
constexpr double kSpeedSlope = 0.1;  // divided by the number of timesteps

// As numpy.gradient: central differences, one-sided at the ends.
double Slope(const NoiseSchedule& schedule, int t) {
  const int before = std::max(0, t - 1), after = std::min(schedule.num_timesteps() - 1, t + 1);
  if (before == after) return 0;
  const auto noise = [&schedule](int at) { return std::sqrt(1 - schedule.alpha_cumprod(at)); };
  return (noise(after) - noise(before)) / (after - before);
}

}  // namespace

TimestepDistribution::TimestepDistribution(TimestepSampling sampling, const NoiseSchedule& schedule)
    : sampling_(sampling), num_timesteps_(schedule.num_timesteps()) {
  if (sampling == TimestepSampling::kUniform) return;
  const double threshold = kSpeedSlope / num_timesteps_;
  double sum = 0;
  for (int t = 0; t < num_timesteps_; ++t) {
    sum += Slope(schedule, t) > threshold ? kSpeedRatio : 1;
    cumulative_.push_back(sum);
  }
  for (double& value : cumulative_) value /= sum;
}

double TimestepDistribution::Probability(int timestep) const {
  if (cumulative_.empty()) return 1.0 / num_timesteps_;
  return cumulative_[timestep] - (timestep > 0 ? cumulative_[timestep - 1] : 0);
}

Tensor TimestepDistribution::Draw(const std::shared_ptr<Device>& device, uint64_t seed,
                                  uint64_t step, uint32_t first_sample, int count) const {
  if (sampling_ == TimestepSampling::kUniform) {
    return DrawTimesteps(device, seed, step, first_sample, count, num_timesteps_);
  }
  Tensor timesteps = Tensor::Empty(device, {count}, DType::kI32);
  for (int b = 0; b < count; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b),
                        RandomPurpose::kTimestep);
    const auto found =
        std::upper_bound(cumulative_.begin(), cumulative_.end(), random.NextUniform());
    const auto last = static_cast<int64_t>(num_timesteps_) - 1;
    timesteps.data<int32_t>()[b] =
        static_cast<int32_t>(std::min<int64_t>(found - cumulative_.begin(), last));
  }
  return timesteps;
}

}  // namespace dpipe::diffusion
