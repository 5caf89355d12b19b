#include "models/diffusion/draws.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/philox.h"

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

Tensor DrawNoise(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                 uint32_t first_sample, const Shape& shape, RandomPurpose purpose) {
  Tensor noise = Tensor::Empty(device, shape, DType::kF32);
  const int64_t batch = shape[0];
  for (int64_t b = 0; b < batch; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b), purpose);
    const Tensor sample = noise.Slice(b, b + 1);
    for (float& v : sample.span<float>()) v = random.NextNormal();
  }
  return noise;
}

Tensor DrawTimesteps(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                     uint32_t first_sample, int count, int num_timesteps) {
  DPIPE_CHECK_GT(num_timesteps, 0);
  Tensor timesteps = Tensor::Empty(device, {count}, DType::kI32);
  for (int b = 0; b < count; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b),
                        RandomPurpose::kTimestep);
    timesteps.data<int32_t>()[b] = static_cast<int32_t>(random.NextBelow(num_timesteps));
  }
  return timesteps;
}

void AddOffsetNoise(double strength, uint64_t seed, uint64_t step, uint32_t first_sample,
                    Tensor* noise) {
  const int64_t batch = noise->dim(0);
  const int64_t channels = noise->dim(-1);
  std::vector<float> offsets(channels);
  for (int64_t b = 0; b < batch; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b),
                        RandomPurpose::kOffsetNoise);
    for (float& offset : offsets) offset = static_cast<float>(strength) * random.NextNormal();
    Tensor sample = noise->Slice(b, b + 1);
    int64_t channel = 0;
    for (float& v : sample.span<float>()) {
      v += offsets[channel];
      if (++channel == channels) channel = 0;
    }
  }
}

Tensor TimestepsAtQuantiles(const std::shared_ptr<Device>& device,
                            const std::vector<double>& quantiles, uint32_t first_sample, int count,
                            int num_timesteps) {
  DPIPE_CHECK(!quantiles.empty());
  Tensor timesteps = Tensor::Empty(device, {count}, DType::kI32);
  for (int b = 0; b < count; ++b) {
    const double quantile = quantiles[(first_sample + b) % quantiles.size()];
    DPIPE_CHECK(quantile >= 0 && quantile < 1) << "quantile " << quantile;
    timesteps.data<int32_t>()[b] = static_cast<int32_t>(quantile * num_timesteps);
  }
  return timesteps;
}

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
