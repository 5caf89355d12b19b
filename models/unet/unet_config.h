// The configuration of a U-Net (diffusers UNet2DConditionModel), from its config.json.
#ifndef DPIPE_MODELS_UNET_UNET_CONFIG_H_
#define DPIPE_MODELS_UNET_UNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/config/component_config.h"

namespace dpipe::models {

// What a U-Net takes of each pixel besides what is noisy, by further input channels.
enum class FurtherInput {
  kNone,
  kEstimate,     // its own estimate before: as many channels as it gives
  kCoordinates,  // where the pixel lies in the picture, across and down: for patches of pictures
};

// Our own key of config.json, "estimate" or "coordinates". Loaders of diffusers pass over keys that
// begin so. Without it nothing but latents is known to come in: other models have as many channels
// for something else.
inline constexpr char kFurtherInputKey[] = "_further_input";

// The value of that key; empty: none.
std::string FurtherInputName(FurtherInput input);

// Levels are counted from the highest resolution down; the up blocks' level i is that of the down
// blocks, not the position in the file (which lists up blocks from the lowest resolution).
struct UNetConfig {
  int64_t in_channels = 4;  // with those of further_input
  int64_t out_channels = 4;
  FurtherInput further_input = FurtherInput::kNone;
  int64_t sample_size = 64;       // latent height and width that it was trained at
  std::string diffusers_version;  // of the writer of the file; empty: not stated
  std::vector<int64_t> block_out_channels;
  std::vector<bool> down_has_attention;     // CrossAttnDownBlock2D, else DownBlock2D
  std::vector<bool> up_has_attention;       // CrossAttnUpBlock2D, else UpBlock2D; by level
  int64_t layers_per_block = 2;             // resnets of a down block; an up block has one more
  std::vector<int64_t> num_heads;           // by level; the mid block has the last level's
  std::vector<int64_t> transformer_layers;  // by level; likewise
  int64_t cross_attention_dim = 768;
  bool linear_projection = false;
  int64_t norm_groups = 32;
  double norm_eps = 1e-5;
  double dropout = 0;             // of training alone, which is not built
  bool time_cosine_first = true;  // flip_sin_to_cos
  double time_frequency_shift = 0;

  int num_levels() const { return static_cast<int>(block_out_channels.size()); }
  bool self_conditioning() const { return further_input == FurtherInput::kEstimate; }
  bool coordinates() const { return further_input == FurtherInput::kCoordinates; }
  // Of what is noisy alone.
  int64_t latent_channels() const {
    return further_input == FurtherInput::kNone ? in_channels : out_channels;
  }
  int64_t time_width() const { return 4 * block_out_channels[0]; }
};

// From the text of a config.json; `source` names the file in messages. InvalidArgument names every
// key whose value is wrong or asks for what is not supported (class embeddings, dual attention,
// ...).
absl::StatusOr<UNetConfig> ParseUNetConfig(const std::string& json, const std::string& source);
absl::StatusOr<UNetConfig> ReadUNetConfig(const std::string& path);

// What a U-Net takes by its numbers of channels alone: how folders that have no kFurtherInputKey
// yet say it. Only for such as are known to be ours.
FurtherInput GuessFurtherInput(const UNetConfig& config);

// The keys that say what the encoder and the mid block are, which a ControlNet's config.json has
// too; what belongs to the decoder stays as it is. Problems are noted in `config`.
UNetConfig ReadUNetEncoderKeys(ComponentConfig* config);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_CONFIG_H_
