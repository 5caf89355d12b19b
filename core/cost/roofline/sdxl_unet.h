// The U-Net of Stable Diffusion XL (diffusers UNet2DConditionModel), in training.
#ifndef DPIPE_CORE_COST_ROOFLINE_SDXL_UNET_H_
#define DPIPE_CORE_COST_ROOFLINE_SDXL_UNET_H_

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

// A backbone "unet" with layers add_noise, time_embedding, those of the U-Net as in models/unet,
// and loss. External inputs: "latents" of "vae_encoder", "context" [77, 768] of "text_encoder",
// "context_2" [77, 1280] and "pooled" [1280] of "text_encoder_2", noise, timesteps. `latent_size`
// is the latents' height and width, a multiple of 4.
ComponentWork SdxlUNet(int64_t latent_size);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_SDXL_UNET_H_
