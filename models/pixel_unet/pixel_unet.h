// A pixel-space U-Net as a Program (diffusers UNet2DModel; the architecture of guided diffusion,
// Dhariwal and Nichol, arXiv 2105.05233): residual blocks that the time embedding scales and
// shifts, self-attention at low resolutions, residual blocks that halve and double the image.
//
// As the second model of a cascade it sees a picture of lower resolution too: enlarged bilinearly
// and joined to its input's channels. In training that picture is noised at a level of its own
// (Ho et al., "Cascaded diffusion models", arXiv 2106.15282, conditioning augmentation), of which
// the U-Net is told through an embedding.
//
// Parameters are named and shaped as in diffusers' checkpoints, after `prefix`. Layers, in order:
// add_noise or input, time_embedding, conv_in, then for each level residual blocks (conv1,
// conv_shortcut, conv2), attentions and resizing, conv_out, loss or output.
#ifndef DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_
#define DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_

#include <string>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/diffusion/noise_schedule.h"
#include "models/pixel_unet/pixel_unet_config.h"

namespace dpipe::models {

// What the configuration leaves open. in_channels is out_channels, plus as many for the picture of
// lower resolution, plus as many for the U-Net's own estimate.
struct PixelUNetOptions {
  std::string prefix;   // of parameters' names
  int64_t height = 64;  // divisible by 2^(levels - 1)
  int64_t width = 64;
  // Of the picture of lower resolution; 0: there is none. With one, and only then, the
  // configuration has an embedding for its noise level.
  int64_t low_height = 0;
  int64_t low_width = 0;
  bool self_conditioning = false;

  bool has_low_resolution() const { return low_height > 0; }
};

struct PixelUNetTraining {
  diffusion::NoiseSchedule schedule;
  double min_snr_gamma = 0;               // 0: all timesteps weigh the same
  diffusion::NoiseSchedule low_schedule;  // of the picture of lower resolution
};

// For training. External inputs: "pixels" and "noise" fp32 [height, width, out_channels],
// "timesteps" int32 []; with a table of classes "labels" int32 []; with a picture of lower
// resolution "low_resolution" and "low_noise" fp32 [low_height, low_width, out_channels] and
// "noise_levels" int32 [], timesteps of low_schedule. Output: "loss" fp32 [], one number a sample.
// With self-conditioning also: input "estimate" [height, width, out_channels] in the compute dtype,
// the U-Net's prediction or zeros, and output "prediction" of that type, without a gradient.
// InvalidArgument where size, channels or embeddings do not suit.
absl::StatusOr<nn::Program> BuildPixelUNetForTraining(const PixelUNetConfig& config,
                                                      const PixelUNetOptions& options,
                                                      const PixelUNetTraining& training);

// For sampling, all layers frozen. External inputs: "noisy_pixels" and "timesteps" fp32, and as
// above "labels", "low_resolution" (with its noise), "noise_levels", "estimate". Output:
// "prediction" fp32 [height, width, out_channels].
absl::StatusOr<nn::Program> BuildPixelUNetForInference(const PixelUNetConfig& config,
                                                       const PixelUNetOptions& options);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_
