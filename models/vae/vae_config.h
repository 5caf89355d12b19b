// The configuration of a KL-VAE (diffusers AutoencoderKL), from its config.json.
#ifndef DPIPE_MODELS_VAE_VAE_CONFIG_H_
#define DPIPE_MODELS_VAE_VAE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

struct VaeConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t latent_channels = 4;
  int64_t sample_size = 512;                // height and width of the training images, in pixels
  std::vector<int64_t> block_out_channels;  // from the highest resolution down
  int64_t layers_per_block = 2;  // resnets per encoder block; a decoder block has one more
  int64_t norm_groups = 32;
  // Latents of diffusion are (z - shift_factor) * scaling_factor, with z the network's own.
  double scaling_factor = 0.18215;
  double shift_factor = 0;
  bool use_quant_conv = true;
  bool use_post_quant_conv = true;

  int num_levels() const { return static_cast<int>(block_out_channels.size()); }
  // Pixels per latent along each side.
  int64_t downscale() const { return int64_t{1} << (num_levels() - 1); }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<VaeConfig> ParseVaeConfig(const std::string& json, const std::string& source);
absl::StatusOr<VaeConfig> ReadVaeConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_VAE_CONFIG_H_
