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
  // Of the copy: what UNetConfig says of a decoder does not count.
  UNetConfig encoder;
  int64_t conditioning_channels = 3;
  // Of the hint network: each but the first halves height and width.
  std::vector<int64_t> hint_channels = {16, 32, 96, 256};

  // Pixels of the condition for each of the latents, along a side.
  int64_t hint_downscale() const { return int64_t{1} << (hint_channels.size() - 1); }
};

// From the text of a config.json; `source` names the file in messages. InvalidArgument names every
// key whose value is wrong or asks for what is not supported (global pooling, BGR conditions, ...).
absl::StatusOr<ControlNetConfig> ParseControlNetConfig(const std::string& json,
                                                       const std::string& source);
absl::StatusOr<ControlNetConfig> ReadControlNetConfig(const std::string& path);

// InvalidArgument names the first key in which the copy is not that of this U-Net's encoder.
absl::Status CheckFitsUNet(const ControlNetConfig& config, const UNetConfig& unet);

// The hint network's channels for a new ControlNet of conditions `downscale` times as large as the
// latents, a power of two: those of v1.0 for 8, fewer or more of the same series otherwise.
std::vector<int64_t> DefaultHintChannels(int64_t downscale);

// The text of a config.json for a new ControlNet of the U-Net with this one: its keys that a
// ControlNetModel has, and the hint network's.
absl::StatusOr<std::string> ControlNetConfigOf(const std::string& unet_json,
                                               const std::string& source,
                                               const std::vector<int64_t>& hint_channels);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_CONTROLNET_CONFIG_H_
