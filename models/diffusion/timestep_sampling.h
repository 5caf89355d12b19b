// Probabilities with which training draws timesteps.
#ifndef DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_
#define DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_

#include <memory>
#include <vector>

#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

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

#endif  // DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_
