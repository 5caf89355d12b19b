// With which probability training draws each timestep.
#ifndef DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_
#define DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

enum class TimestepSampling {
  kUniform,
  // SpeeD's asymmetric sampling (Wang et al., arXiv 2405.17403): timesteps at which the noise
  // hardly grows any more teach little, and are drawn a fifth as often.
  kSpeed,
};

// "uniform", "speed". InvalidArgument lists them.
absl::StatusOr<TimestepSampling> ParseTimestepSampling(absl::string_view name);

// Immutable; thread-safe.
class TimestepDistribution {
 public:
  // kSpeed: with s(t) = sqrt(1 - abar_t) and its slope by central differences, a timestep counts
  // five times where the slope is above 0.1 / num_timesteps (1e-4 of their 1000), once elsewhere.
  TimestepDistribution(TimestepSampling sampling, const NoiseSchedule& schedule);

  // int32 [count]; row b belongs to sample first_sample + b, keyed as DrawTimesteps', and uniform
  // ones are equal to it.
  Tensor Draw(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
              uint32_t first_sample, int count) const;
  double Probability(int timestep) const;

 private:
  const TimestepSampling sampling_;
  const int num_timesteps_;
  std::vector<double> cumulative_;  // of kSpeed: up to and including each timestep
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_TIMESTEP_SAMPLING_H_
