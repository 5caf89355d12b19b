// A pixel-space U-Net as a Program (diffusers UNet2DModel; the architecture of guided diffusion,
// Dhariwal and Nichol, arXiv 2105.05233). It has residual blocks scaled and shifted by the time
// embedding, self-attention at low resolutions, and residual blocks that halve and double the
// image.
//
// As the second model of a cascade it also sees a low-resolution picture: enlarged bilinearly and
// joined to its input's channels. In training that picture has a noise level of its own, which the
// U-Net gets as an embedding (conditioning augmentation; Ho et al., "Cascaded diffusion models",
// arXiv 2106.15282).
//
// Parameters are named `prefix` + diffusers' name and shaped as in diffusers' checkpoints. Layers,
// in order: add_noise or input, time_embedding, conv_in, the levels, conv_out, loss or output. A
// level consists of residual blocks (conv1, conv_shortcut, conv2), attentions and resizing.
#ifndef DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_
#define DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_

#include <string>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/diffusion/noise_schedule.h"
#include "models/pixel_unet/pixel_unet_config.h"

namespace dpipe::models {

// Settings that the configuration does not contain. in_channels is out_channels, plus as many for
// the low-resolution picture, plus as many for the U-Net's own estimate.
struct PixelUNetOptions {
  std::string prefix;   // of layers and parameters
  int64_t height = 64;  // divisible by 2^(levels - 1)
  int64_t width = 64;
  // Size of the low-resolution picture; 0 if there is none. The configuration has an embedding of
  // its noise level if and only if there is one.
  int64_t low_height = 0;
  int64_t low_width = 0;
  bool self_conditioning = false;

  bool has_low_resolution() const { return low_height > 0; }
};

struct PixelUNetTraining {
  diffusion::NoiseSchedule schedule;
  double min_snr_gamma = 0;               // 0 weights all timesteps equally
  diffusion::NoiseSchedule low_schedule;  // of the low-resolution picture
};

// Builds the training program.
//
// External inputs:
// - "pixels" and "noise" fp32 [height, width, out_channels], "timesteps" int32 [].
// - With a table of classes: "labels" int32 [].
// - With a low-resolution picture: "low_resolution" and "low_noise" fp32
//   [low_height, low_width, out_channels], and "noise_levels" int32 [], timesteps of low_schedule.
// - With self-conditioning: "estimate" [height, width, out_channels] in the compute dtype, the
//   U-Net's prediction or zeros.
//
// Outputs: "loss" fp32 [], one number per sample; with self-conditioning also "prediction", with
// the type of "estimate" and no gradient. Returns InvalidArgument if sizes, channels or embeddings
// are incompatible.
absl::StatusOr<nn::Program> BuildPixelUNetForTraining(const PixelUNetConfig& config,
                                                      const PixelUNetOptions& options,
                                                      const PixelUNetTraining& training);

// Builds the sampling program, with all layers frozen. External inputs: "noisy_pixels" and
// "timesteps" fp32, and as above "labels", "low_resolution" (already noised), "noise_levels" and
// "estimate". Output: "prediction" fp32 [height, width, out_channels].
absl::StatusOr<nn::Program> BuildPixelUNetForInference(const PixelUNetConfig& config,
                                                       const PixelUNetOptions& options);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_H_
