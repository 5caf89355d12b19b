// Names of the transformers' parameters in their original implementations: Stability AI's
// ("joint_blocks.0.x_block.attn.qkv") and Black Forest Labs' ("double_blocks.0.img_attn.qkv").
// Single-file checkpoints have these names, and kohya-ss names adapters after them.
#ifndef DPIPE_MODELS_MMDIT_ORIGINAL_NAMES_H_
#define DPIPE_MODELS_MMDIT_ORIGINAL_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "models/lora/kohya_layers.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"

namespace dpipe::models {

// A linear layer of the original implementation.
struct OriginalLayer {
  std::string name;                     // "double_blocks.0.img_attn.qkv"
  std::vector<KohyaLayer::Part> parts;  // diffusers' layers, whose rows follow each other
  // The original has the second half of the rows first: modulations without a gate have shift and
  // scale in the other order there.
  bool swaps_halves = false;
};

struct OriginalNames {
  std::vector<OriginalLayer> linear_layers;
  // Original names of other tensors, by diffusers' names. Some may not exist in a configuration.
  std::map<std::string, std::string> other_tensors;
};

// Inverse of diffusers' convert_sd3_transformer_checkpoint_to_diffusers and
// convert_flux_transformer_checkpoint_to_diffusers (loaders/single_file_utils.py).
OriginalNames Sd3OriginalNames(const Sd3TransformerConfig& config);
OriginalNames FluxOriginalNames(const FluxTransformerConfig& config);

// Returns the linear layers as kohya-ss's tools name them.
std::vector<KohyaLayer> KohyaLayersOf(const OriginalNames& names);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_ORIGINAL_NAMES_H_
