// The noise levels of a sampler as Karras et al. spread them (arXiv 2206.00364, equation 5, rho 7):
// closer to each other where there is little noise. As diffusers' `use_karras_sigmas`.
#ifndef DPIPE_MODELS_DIFFUSION_KARRAS_SIGMAS_H_
#define DPIPE_MODELS_DIFFUSION_KARRAS_SIGMAS_H_

#include <vector>

#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// What diffusers takes in the place of the abar of 0 that zero terminal SNR ends with: the least
// number that fp16 tells from 0.
inline constexpr double kLeastAlphaCumprod = 1.0 / (1 << 24);

struct NoiseLevel {
  double sigma;  // sqrt((1 - abar) / abar)
  int timestep;  // what the model is told; its own sigma is near, but not the same
};

// From the schedule's largest sigma to its smallest; with one level, the largest. num_levels >= 1.
// A timestep is that of sigma, interpolated by log sigma and rounded, or truncated under
// squaredcos_cap_v2; neighbouring levels may share one. An abar of 0 counts as kLeastAlphaCumprod.
std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, int num_levels);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_KARRAS_SIGMAS_H_
