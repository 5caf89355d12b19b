// ControlNet v1.0 (Zhang et al., arXiv 2302.05543; diffusers ControlNetModel) as Programs.
//
// A trainable copy of a U-Net's encoder and mid block sees the noisy latents and, through a small
// hint network, a condition picture. The locked decoder gets the outputs of the locked U-Net's
// encoder plus those of the copy, which pass through 1x1 convolutions that start at zero:
//
//   latents, noise --add_noise--+--> locked_encoder (frozen) ---- skips, middle, time ----+
//                               |                                                         v
//   condition --> hint network -+--> copy (trainable) --> zero convolutions --> sums --> decoder
//                                                                        (frozen with gradient)
//
// The locked encoder never needs a gradient. So it is a separate frozen component, fed by the other
// frozen ones, and can run ahead of the step like them. The decoder's weights are not trained
// either, but gradients flow through it to the sums.
//
// Parameters of the copy, the hint network and the zero convolutions are named as in diffusers'
// ControlNetModel. Those of the locked encoder are named as in diffusers' U-Net, and those of the
// decoder as in the U-Net with the prefix kDecoderPrefix.
#ifndef DPIPE_MODELS_CONTROLNET_CONTROLNET_H_
#define DPIPE_MODELS_CONTROLNET_CONTROLNET_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/controlnet/controlnet_config.h"
#include "models/diffusion/objective.h"
#include "models/unet/unet.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

inline constexpr char kDecoderPrefix[] = "unet.";

// Builds the locked encoder. External inputs: "latents" and "noise" fp32
// [height, width, in_channels], "timesteps" [], "context"
// [context_length, cross_attention_dim] in the compute dtype. Outputs, in the compute dtype: "time"
// [4 x channels], "skip_0", "skip_1", ... in the order in which the encoder computes them,
// "middle".
absl::StatusOr<nn::Program> BuildLockedEncoder(const UNetConfig& config, const UNetShape& shape,
                                               const diffusion::Objective& objective);

// Builds the backbone. External inputs: "condition" fp32 [d height, d width, 3] in [0, 1], with d
// the hint network's downscale; "latents", "noise", "timesteps", "context"; and the locked
// encoder's outputs. Output: "loss" fp32 [], one number per sample. Returns InvalidArgument if the
// sizes or the configurations are incompatible.
absl::StatusOr<nn::Program> BuildControlNetForTraining(const ControlNetConfig& config,
                                                       const UNetConfig& unet,
                                                       const UNetShape& shape,
                                                       const diffusion::Objective& objective);

// Builds the ControlNet by itself, as in a checkpoint, with all layers frozen. External inputs:
// "noisy_latents" fp32, "timesteps", "context", "condition". Outputs, in the compute dtype:
// "residual_0", ..., "residual_middle", which are added to the locked encoder's skips and middle.
absl::StatusOr<nn::Program> BuildControlNetAlone(const ControlNetConfig& config,
                                                 const UNetShape& shape);

// Builds the locked U-Net with control for sampling, with all layers frozen. All of the U-Net's
// parameters have the prefix kDecoderPrefix. External inputs: "noisy_latents" and "timesteps" fp32,
// "context", "condition". Output: "prediction" fp32 [height, width, out_channels].
absl::StatusOr<nn::Program> BuildControlNetForInference(const ControlNetConfig& config,
                                                        const UNetConfig& unet,
                                                        const UNetShape& shape);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_CONTROLNET_H_
