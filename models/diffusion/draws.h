// Random draws of a training step. A draw is keyed by (seed, step, global sample index), so it
// depends neither on the device that makes it nor on how the batch is split.
#ifndef DPIPE_MODELS_DIFFUSION_DRAWS_H_
#define DPIPE_MODELS_DIFFUSION_DRAWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// Returns standard normal noise, fp32 of `shape` [B, ...]. Row b belongs to sample
// first_sample + b.
Tensor DrawNoise(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                 uint32_t first_sample, const Shape& shape,
                 RandomPurpose purpose = RandomPurpose::kNoise);

// Returns timesteps drawn uniformly from [0, num_timesteps), int32 [count].
Tensor DrawTimesteps(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                     uint32_t first_sample, int count, int num_timesteps);

// Adds `strength` times a standard normal number per sample and channel (the last dimension) to all
// of the channel's pixels ("offset noise"). Plain noise hardly changes a sample's mean, so a model
// would not learn to change it.
void AddOffsetNoise(double strength, uint64_t seed, uint64_t step, uint32_t first_sample,
                    Tensor* noise);

// Returns timesteps at fixed quantiles of [0, num_timesteps), int32 [count]: sample i gets
// floor(quantiles[i mod size] * num_timesteps). Each quantile is in [0, 1).
Tensor TimestepsAtQuantiles(const std::shared_ptr<Device>& device,
                            const std::vector<double>& quantiles, uint32_t first_sample, int count,
                            int num_timesteps);

// The probabilities with which training draws timesteps.
enum class TimestepSampling {
  kUniform,
  // SpeeD's asymmetric sampling (Wang et al., arXiv 2405.17403): timesteps at which the noise
  // hardly grows teach little, so they are drawn a fifth as often.
  kSpeed,
};

// Immutable; thread-safe.
class TimestepDistribution {
 public:
  // kSpeed: let s(t) = sqrt(1 - abar_t), with its slope by central differences. A timestep has
  // weight 5 if the slope is above 0.1 / num_timesteps (1e-4 with the paper's 1000), else weight 1.
  TimestepDistribution(TimestepSampling sampling, const NoiseSchedule& schedule);

  // Returns int32 [count]; row b belongs to sample first_sample + b. Keyed as DrawTimesteps, and
  // equal to it for kUniform.
  Tensor Draw(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
              uint32_t first_sample, int count) const;
  double Probability(int timestep) const;

 private:
  const TimestepSampling sampling_;
  const int num_timesteps_;
  std::vector<double> cumulative_;  // for kSpeed: up to and including each timestep
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_DRAWS_H_
