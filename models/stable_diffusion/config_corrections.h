// What diffusers' StableDiffusionPipeline takes for granted of Stable Diffusion's configs, whatever
// they say or leave out. Source: its __init__, diffusers 0.42.1.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_

#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

// steps_offset is 1, and predicted x_0 is not clamped: latents exceed +- 1. Schedulers that do not
// have these keys (PNDM, Euler, DPM-Solver) write configs without them, and DDIM's own defaults are
// made for pixels.
void CorrectScheduler(diffusion::NoiseScheduleOptions* scheduler);

// sample_size is 64 where diffusers before 0.9 wrote a smaller one: it did so for every U-Net, and
// Stable Diffusion 1 was made for 64. Configs that do not state a version are left as they are.
void CorrectSampleSize(UNetConfig* unet);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_
