// The noise levels that a sampler steps through: sigma = sqrt((1 - abar) / abar), and what the
// model is told of each. As diffusers' schedulers compute them.
#ifndef DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_
#define DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_

#include <vector>

#include "core/base/status.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// What diffusers puts in the place of the abar of 0 that zero terminal SNR ends with: the smallest
// positive number of fp16.
inline constexpr double kLeastAlphaCumprod = 1.0 / (1 << 24);

struct NoiseLevel {
  double sigma;
  double timestep;  // may lie between the schedule's
};

// sqrt((1 - abar_t) / abar_t); an abar of 0 counts as kLeastAlphaCumprod. t in [0, num_timesteps).
double SigmaAt(const NoiseSchedule& schedule, int t);
// The same at a place between timesteps, interpolated linearly. t in [0, num_timesteps - 1].
double SigmaBetween(const NoiseSchedule& schedule, double t);

// How timesteps are spread over the schedule.
struct Spread {
  TimestepSpacing spacing;
  int num_steps;
  // Linspace and leading spread one step more and leave the last one out.
  bool leaves_out_last = false;
  bool rounds = true;  // linspace to whole timesteps
};

// InvalidArgument if num_steps is not in [1, num_timesteps].
absl::Status CheckNumSteps(const NoiseSchedule& schedule, int num_steps);
// The timesteps, decreasing. InvalidArgument if num_steps is not in [1, num_timesteps], or the
// schedule's steps_offset makes the first one num_timesteps or more.
absl::StatusOr<std::vector<double>> SpreadTimesteps(const NoiseSchedule& schedule,
                                                    const Spread& spread);

// Levels from `most` to `least`, as Karras et al. spread them (arXiv 2206.00364, equation 5, rho
// 7): closer to each other where there is little noise. Or evenly by log sigma. With one level,
// `most`. A level's timestep is interpolated by log sigma. num_levels >= 1.
std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, double most, double least,
                                          int num_levels);
std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, double most,
                                               double least, int num_levels);
// Over the whole schedule.
std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, int num_levels);
std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, int num_levels);

// A place between timesteps as a whole one: rounded to the nearest (half to even), or truncated.
double RoundedTimestep(double timestep);
double TruncatedTimestep(double timestep);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISE_LEVELS_H_
