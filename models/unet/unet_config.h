// The configuration of a U-Net (diffusers UNet2DConditionModel), from its config.json.
#ifndef DPIPE_MODELS_UNET_UNET_CONFIG_H_
#define DPIPE_MODELS_UNET_UNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/config/component_config.h"

namespace dpipe::models {

// Additional input of a U-Net per pixel, joined to the noisy channels.
enum class FurtherInput {
  kNone,
  kEstimate,     // its own previous prediction: out_channels more
  kCoordinates,  // the pixel's position in the picture, across and down, for patches: two more
};

// Our own key of config.json, with the value "estimate" or "coordinates". diffusers' loaders ignore
// keys that begin with an underscore. A model without the key has no further input: other models
// use as many channels for something else.
inline constexpr char kFurtherInputKey[] = "_further_input";

// Returns the value of that key, empty for kNone.
std::string FurtherInputName(FurtherInput input);

// Numbers of the embedding "text_time": height and width of the original picture, top and left of
// the crop in the resized one, height and width of the sample.
inline constexpr int64_t kNumTimeIds = 6;

// Levels count from the highest resolution down, for up blocks too. The file lists up blocks from
// the lowest resolution.
struct UNetConfig {
  int64_t in_channels = 4;  // including those of further_input
  int64_t out_channels = 4;
  FurtherInput further_input = FurtherInput::kNone;
  int64_t sample_size = 64;       // height and width of the training latents
  std::string diffusers_version;  // version that wrote the file; empty if not given
  std::vector<int64_t> block_out_channels;
  std::vector<bool> down_has_attention;  // true for CrossAttnDownBlock2D, false for DownBlock2D
  std::vector<bool> up_has_attention;  // by level: true for CrossAttnUpBlock2D, false for UpBlock2D
  int64_t layers_per_block = 2;        // resnets per down block; an up block has one more
  std::vector<int64_t> num_heads;      // by level; the mid block uses the last level's
  std::vector<int64_t> transformer_layers;  // by level; the mid block uses the last level's
  int64_t cross_attention_dim = 768;
  bool linear_projection = false;
  int64_t norm_groups = 32;
  double norm_eps = 1e-5;
  double dropout = 0;             // training accepts only 0
  bool time_cosine_first = true;  // flip_sin_to_cos
  double time_frequency_shift = 0;
  // With addition_embed_type "text_time" (SDXL), an embedding of pooled text [pooled_width] and of
  // kNumTimeIds numbers, each as time_id_width sinusoids, is added to that of the timestep. 0:
  // none.
  int64_t pooled_width = 0;
  int64_t time_id_width = 0;

  int num_levels() const { return static_cast<int>(block_out_channels.size()); }
  bool self_conditioning() const { return further_input == FurtherInput::kEstimate; }
  bool has_text_time() const { return time_id_width > 0; }
  bool coordinates() const { return further_input == FurtherInput::kCoordinates; }
  // Channels of the noisy latents alone.
  int64_t latent_channels() const {
    return further_input == FurtherInput::kNone ? in_channels : out_channels;
  }
  int64_t time_width() const { return 4 * block_out_channels[0]; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or request unsupported features (class
// embeddings, dual attention, ...).
absl::StatusOr<UNetConfig> ParseUNetConfig(const std::string& json, const std::string& source);
absl::StatusOr<UNetConfig> ReadUNetConfig(const std::string& path);

// Guesses the further input from the numbers of channels, for folders without kFurtherInputKey. Use
// it only for models that are known to be ours.
FurtherInput GuessFurtherInput(const UNetConfig& config);

// Reads the keys of the encoder and the mid block, which a ControlNet's config.json has too. Fields
// of the decoder keep their defaults. Adds problems to `config`.
UNetConfig ReadUNetEncoderKeys(ComponentConfig* config);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_CONFIG_H_
