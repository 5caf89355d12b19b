// Names of a U-Net's layers in the original layout (CompVis, Stability AI): "input_blocks.1.0",
// "middle_block.1", "output_blocks.2.1". kohya-ss names adapters of SDXL after them.
#ifndef DPIPE_MODELS_UNET_ORIGINAL_NAMES_H_
#define DPIPE_MODELS_UNET_ORIGINAL_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {

// Returns the original name of a layer or parameter that diffusers calls `name`, such as
// "down_blocks.1.attentions.0.proj_in" or "conv_in.weight"; `name` itself if it is none of a U-Net
// of this configuration. Inverse of diffusers' convert_ldm_unet_checkpoint
// (loaders/single_file_utils.py).
std::string OriginalUNetName(const UNetConfig& config, absl::string_view name);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_ORIGINAL_NAMES_H_
