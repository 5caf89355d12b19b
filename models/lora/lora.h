// Low-rank adapters among a model's parameters (core/nn/blocks/lora.h): told apart, merged into
// what they adapt, and exchanged with diffusers.
//
// A file of adapters is a safetensors file with the U-Net's names after "unet.":
// "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight". Their scale is
// stored in them (the up part times the scale), so that a reader needs none: to diffusers' it is
// 1, as where alpha is the rank. A file that diffusers wrote may say another scale: its metadata
// "lora_adapter_metadata" is peft's configuration as JSON, each key after "unet.", and the scale is
// lora_alpha / r of it (diffusers loaders/lora_base.py, _save_lora_weights).
#ifndef DPIPE_MODELS_LORA_LORA_H_
#define DPIPE_MODELS_LORA_LORA_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// The name that diffusers' load_lora_weights looks for in a folder.
inline constexpr char kLoraFile[] = "pytorch_lora_weights.safetensors";

// Whether this is one of an adapter's two parameters.
bool IsLoraParameter(absl::string_view name);

struct SplitParameters {
  NamedTensors base, adapters;  // storage is shared with what was split
};
SplitParameters SplitLora(const NamedTensors& parameters);

// The base with scale * B A added to every weight that `adapters` adapt; all else shares storage.
// InvalidArgument names an adapter whose other half or whose weight is missing, or shapes that do
// not go together.
absl::StatusOr<NamedTensors> MergeLora(const NamedTensors& base, const NamedTensors& adapters,
                                       float scale);

// The file appears whole or not at all.
absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      StoredFormat format);

// The adapters of a file by the U-Net's names, fp32, as those that count `scale` times: what the
// metadata says is multiplied into them. InvalidArgument names a tensor that is no adapter of a
// U-Net, or what the metadata asks for and cannot be had: a rank that is not the tensors', ranks or
// alphas that differ from layer to layer, DoRA, rsLoRA, biases. Errors of the format are
// SafetensorsFile's.
absl::StatusOr<NamedTensors> LoadLora(const std::string& path, float scale);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_H_
