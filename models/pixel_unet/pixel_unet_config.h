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
  bool attention = false;      // after every residual block
  bool resnet_resize = false;  // a residual block halves or doubles; else a convolution does
};

// Levels are counted from the highest resolution down, for `up` too.
struct PixelUNetConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t sample_size = 64;  // height and width that it was made for
  std::vector<int64_t> block_out_channels;
  std::vector<PixelUNetBlock> down, up;
  int64_t layers_per_block = 2;  // residual blocks of a down block; an up block has one more
  int64_t head_channels = 8;     // of attention; 0: one head
  bool mid_attention = true;
  int64_t norm_groups = 32;
  int64_t mid_norm_groups = 0;  // of the mid block's attention; 0: it has no norm
  double norm_eps = 1e-5;
  double dropout = 0;              // of training alone, which is not built
  bool scale_shift = false;        // resnet_time_scale_shift
  int64_t num_class_embeds = 0;    // a table of labels; 0: none
  bool noise_level_embed = false;  // class_embed_type "timestep": a second number through sinusoids
  bool time_cosine_first = true;   // flip_sin_to_cos
  double time_frequency_shift = 0;

  int num_levels() const { return static_cast<int>(block_out_channels.size()); }
  int64_t time_width() const { return 4 * block_out_channels[0]; }
};

// From the text of a config.json; `source` names the file in messages. InvalidArgument names every
// key whose value is wrong or asks for what is not supported (Fourier embeddings, ...).
absl::StatusOr<PixelUNetConfig> ParsePixelUNetConfig(const std::string& json,
                                                     const std::string& source);
absl::StatusOr<PixelUNetConfig> ReadPixelUNetConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_PIXEL_UNET_PIXEL_UNET_CONFIG_H_
