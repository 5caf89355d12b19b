// Settings that diffusers' StableDiffusionPipeline assumes for Stable Diffusion, regardless of its
// configurations. Source: its __init__, diffusers 0.42.1.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_

#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

// Sets steps_offset to 1 and disables clamping of predicted x_0, because latents exceed +- 1.
// Schedulers without these keys (PNDM, Euler, DPM-Solver) omit them from their configurations, and
// DDIM's own defaults are meant for pixels.
void CorrectScheduler(diffusion::NoiseScheduleOptions* scheduler);

// Sets sample_size to 64 if diffusers before 0.9 wrote a smaller one. Those versions wrote it for
// every U-Net, although Stable Diffusion 1 was made for 64. Configurations without a version are
// unchanged.
void CorrectSampleSize(UNetConfig* unet);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_CONFIG_CORRECTIONS_H_
