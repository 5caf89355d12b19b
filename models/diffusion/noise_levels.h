// The noise levels through which a sampler steps, sigma = sqrt((1 - abar) / abar), and the timestep
// of each, as diffusers' schedulers compute them.
#ifndef DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_
#define DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_

#include <vector>

#include "core/base/status.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// With zero terminal SNR the last abar is 0. diffusers replaces it by the minimum positive number
// of fp16.
inline constexpr double kMinAlphaCumprod = 1.0 / (1 << 24);

struct NoiseLevel {
  double sigma;
  double timestep;  // may lie between those of the schedule
};

// Returns sqrt((1 - abar_t) / abar_t); an abar of 0 counts as kMinAlphaCumprod. t in
// [0, num_timesteps).
double SigmaAt(const NoiseSchedule& schedule, int t);
// Interpolates linearly between timesteps. t in [0, num_timesteps - 1].
double SigmaBetween(const NoiseSchedule& schedule, double t);

// Distribution of timesteps over the schedule.
struct Spread {
  TimestepSpacing spacing;
  int num_steps;
  // Linspace and leading spread one more step and drop the last one.
  bool drops_last = false;
  bool rounds = true;  // if true, rounds linspace to whole timesteps
};

// Returns InvalidArgument if num_steps is not in [1, num_timesteps].
absl::Status CheckNumSteps(const NoiseSchedule& schedule, int num_steps);
// Returns decreasing timesteps. Returns InvalidArgument if num_steps is not in [1, num_timesteps],
// or if the schedule's steps_offset moves the first timestep to num_timesteps or more.
absl::StatusOr<std::vector<double>> SpreadTimesteps(const NoiseSchedule& schedule,
                                                    const Spread& spread);

// Return decreasing levels from `max_sigma` to `min_sigma`; a single level is `max_sigma`. Karras
// et al. (arXiv 2206.00364, equation 5, rho = 7) place levels closer together at low noise;
// exponential levels are evenly spaced in log sigma. A level's timestep is interpolated in log
// sigma. num_levels >= 1.
std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, double max_sigma,
                                          double min_sigma, int num_levels);
std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, double max_sigma,
                                               double min_sigma, int num_levels);
// The same over the whole schedule.
std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, int num_levels);
std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, int num_levels);

// Return a whole timestep: rounded to the nearest (half to even), or truncated.
double RoundedTimestep(double timestep);
double TruncatedTimestep(double timestep);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_
