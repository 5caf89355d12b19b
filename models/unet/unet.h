// Stable Diffusion's U-Net as a Program (diffusers UNet2DConditionModel).
//
// Parameters are named and shaped as in diffusers' checkpoints. Layers, in order: [add_noise],
// time_embedding, conv_in, the levels, conv_out, [loss]. A level consists of resnets (conv1,
// conv_shortcut, conv2), transformers (proj_in, attn1, attn2, ff, proj_out) and resampling. The
// training program of Stable Diffusion v2.1 has 149 layers.
#ifndef DPIPE_MODELS_UNET_UNET_H_
#define DPIPE_MODELS_UNET_UNET_H_

#include <cstddef>
#include <string>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/diffusion/objective.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_parts.h"

namespace dpipe::models {

// Returns the input for the embeddings of text encoder number `encoder`: "context", "context_2",
// ...
std::string ContextInputName(size_t encoder);

// Builds the training program. External inputs: "latents" and "noise" fp32
// [height, width, out_channels], "timesteps" [] of the objective's type, "context"
// [context_length, cross_attention_dim] in the compute dtype; with several context_widths instead
// one input per width, named ContextInputName; with the embedding "text_time" also "pooled"
// [pooled_width] in the compute dtype and "time_ids" fp32 [kNumTimeIds]. Output: "loss" fp32 [],
// one number per sample. With a `lora` of rank > 0, only adapters of the attentions are trained.
//
// - kEstimate adds self-conditioning (Chen et al., arXiv 2208.04202). The input "estimate"
//   [height, width, out_channels] in the compute dtype is the U-Net's previous prediction or zeros.
//   The output "prediction" has the same type and no gradient.
// - kCoordinates adds the input "coordinates" fp32 [height, width, 2], across and down, for Patch
//   Diffusion (Wang et al., arXiv 2304.12526).
//
// Returns InvalidArgument if the size does not suit the number of levels, or if in_channels does
// not match out_channels and further_input.
absl::StatusOr<nn::Program> BuildUNetForTraining(const UNetConfig& config, const UNetShape& shape,
                                                 const diffusion::Objective& objective,
                                                 const nn::LoraSpec& lora = {});

// Builds the sampling program, with all layers frozen. External inputs: "noisy_latents" fp32,
// "timesteps" fp32 (samplers also visit fractional timesteps), the conditions of the training
// program, and "estimate" or "coordinates" if the U-Net takes them. Output: "prediction" fp32
// [height, width, out_channels]. Returns InvalidArgument if the size does not suit the number of
// levels.
absl::StatusOr<nn::Program> BuildUNetForInference(const UNetConfig& config, const UNetShape& shape);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_H_
