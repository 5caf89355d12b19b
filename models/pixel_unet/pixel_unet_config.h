// The configuration of a pixel-space U-Net (diffusers UNet2DModel), from its config.json.
#ifndef DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_CONFIG_H_
#define DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// One level of resolution on the way down or up.
struct PixelUNetBlock {
  bool attention = false;      // self-attention after every residual block
  bool resnet_resize = false;  // resize with a residual block instead of a convolution
};

// Levels count from the highest resolution down, for `up` too.
struct PixelUNetConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t sample_size = 64;  // height and width of the training images
  std::vector<int64_t> block_out_channels;
  std::vector<PixelUNetBlock> down, up;
  int64_t layers_per_block = 2;  // residual blocks per down block; an up block has one more
  int64_t head_channels = 8;     // per attention head; 0 means one head
  bool mid_attention = true;
  int64_t norm_groups = 32;
  int64_t mid_norm_groups = 0;  // for the mid block's attention; 0 means no norm
  double norm_eps = 1e-5;
  double dropout = 0;              // training accepts only 0
  bool scale_shift = false;        // resnet_time_scale_shift
  int64_t num_class_embeds = 0;    // size of the table of labels; 0 if there is none
  bool noise_level_embed = false;  // class_embed_type "timestep": sinusoids of a second number
  bool time_cosine_first = true;   // flip_sin_to_cos
  double time_frequency_shift = 0;

  int num_levels() const { return static_cast<int>(block_out_channels.size()); }
  int64_t time_width() const { return 4 * block_out_channels[0]; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or request unsupported features (Fourier
// embeddings, ...).
absl::StatusOr<PixelUNetConfig> ParsePixelUNetConfig(const std::string& json,
                                                     const std::string& source);
absl::StatusOr<PixelUNetConfig> ReadPixelUNetConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_CONFIG_H_
