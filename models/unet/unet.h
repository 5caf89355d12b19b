// The U-Net of Stable Diffusion as a Program (diffusers UNet2DConditionModel).
//
// Parameters are named and shaped as in diffusers' checkpoints. Layers, in order: [add_noise],
// time_embedding, conv_in, then for each level resnets (conv1, conv_shortcut, conv2) and
// transformers (proj_in, attn1, attn2, ff, proj_out) and resampling, conv_out, [loss]: 149 in all
// for Stable Diffusion v2.1 training.
#ifndef DPIPE_MODELS_UNET_UNET_H_
#define DPIPE_MODELS_UNET_UNET_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_parts.h"

namespace dpipe::models {

struct UNetTraining {
  diffusion::NoiseSchedule schedule;
  double min_snr_gamma = 0;  // 0: all timesteps weigh the same
  nn::LoraSpec lora = {};    // with a rank, only adapters of the attentions are trained
};

// For training. External inputs: "latents" and "noise" fp32 [height, width, out_channels],
// "timesteps" int32 [], "context" [context_length, cross_attention_dim] in the compute dtype.
// Output: "loss" fp32 [], one number a sample. InvalidArgument where the size does not suit the
// number of levels, or in_channels is not that of out_channels and further_input. With kEstimate it
// has self-conditioning (Chen et al., arXiv 2208.04202): there are also an input "estimate"
// [height, width, out_channels] in the compute dtype, what the U-Net predicted before or zeros, and
// an output "prediction" of that type, without a gradient. With kCoordinates there is an input
// "coordinates" fp32 [height, width, 2], across and down, as Patch Diffusion has (Wang et al.,
// arXiv 2304.12526).
absl::StatusOr<nn::Program> BuildUNetForTraining(const UNetConfig& config, const UNetShape& shape,
                                                 const UNetTraining& training);

// For sampling, all layers frozen. External inputs: "noisy_latents" fp32, "timesteps" fp32
// (samplers visit places between the whole ones that are trained), "context", and "estimate" or
// "coordinates" where it takes them. Output: "prediction" fp32 [height, width, out_channels].
absl::StatusOr<nn::Program> BuildUNetForInference(const UNetConfig& config, const UNetShape& shape);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_H_
