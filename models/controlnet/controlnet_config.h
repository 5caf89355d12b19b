// The configuration of a ControlNet (diffusers ControlNetModel), from its config.json.
#ifndef DPIPE_MODELS_CONTROLNET_CONTROLNET_CONFIG_H_
#define DPIPE_MODELS_CONTROLNET_CONTROLNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

struct ControlNetConfig {
  // Of the copy; fields of the decoder are ignored.
  UNetConfig encoder;
  int64_t conditioning_channels = 3;
  // Of the hint network; each but the first halves height and width.
  std::vector<int64_t> hint_channels = {16, 32, 96, 256};

  // Pixels of the condition per latent along each side.
  int64_t hint_downscale() const { return int64_t{1} << (hint_channels.size() - 1); }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or request unsupported features (global
// pooling, BGR conditions, ...).
absl::StatusOr<ControlNetConfig> ParseControlNetConfig(const std::string& json,
                                                       const std::string& source);
absl::StatusOr<ControlNetConfig> ReadControlNetConfig(const std::string& path);

// Returns InvalidArgument with the first key in which the copy differs from this U-Net's encoder.
absl::Status CheckFitsUNet(const ControlNetConfig& config, const UNetConfig& unet);

// Returns the hint network's channels for a new ControlNet. Its conditions have `downscale` times
// the side of the latents, a power of two. These are the channels of v1.0 for 8, and fewer or more
// of the same series otherwise.
std::vector<int64_t> DefaultHintChannels(int64_t downscale);

// Returns the text of a config.json for a new ControlNet of the U-Net with this configuration: its
// keys that a ControlNetModel has too, and those of the hint network.
absl::StatusOr<std::string> ControlNetConfigOf(const std::string& unet_json,
                                               const std::string& source,
                                               const std::vector<int64_t>& hint_channels);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_CONTROLNET_CONFIG_H_
