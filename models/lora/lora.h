// Low-rank adapters among a model's parameters (core/nn/blocks/lora.h): told apart, merged into
// what they adapt, and exchanged with diffusers and kohya-ss.
//
// A file of adapters is a safetensors file. It is written with the U-Net's names after "unet.":
// "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight". Their scale is
// stored in them (the up part times the scale), so that a reader needs none: to diffusers' it is
// 1, as where alpha is the rank. lora_names.h has the names that are read. A file may say another
// scale: by a scalar "alpha" beside an adapter, whose scale is then alpha / rank; or by the
// metadata "lora_adapter_metadata" of diffusers, peft's configuration as JSON, each key after
// "unet." or "text_encoder.", and the scale is lora_alpha / r of it (diffusers
// loaders/lora_base.py, _save_lora_weights).
#ifndef DPIPE_MODELS_LORA_LORA_H_
#define DPIPE_MODELS_LORA_LORA_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/lora/lora_names.h"
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
// Of a convolution's weight [out, in, kernel], A is [rank, in, kernel] and B is [out, rank]; a
// matrix may be stored as a 1 x 1 convolution. InvalidArgument names an adapter whose other half or
// whose weight is missing, or shapes that do not go together.
absl::StatusOr<NamedTensors> MergeLora(const NamedTensors& base, const NamedTensors& adapters,
                                       float scale);

// The file appears whole or not at all.
absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      StoredFormat format);

// The layers that a file's adapters may be of.
struct LoraTargets {
  AdaptableLayers unet, text_encoder;
};

// Named LAYER.lora_A.weight and LAYER.lora_B.weight by the components' own names of layers.
struct LoraAdapters {
  NamedTensors unet, text_encoder;
};

// The adapters of a file, fp32, the U-Net's as those that count `scale` times, the text encoder's
// once: the file's alphas and metadata are multiplied into them. InvalidArgument names a tensor
// that is not an adapter or is for a layer that there is not, or what the metadata asks for and is
// not supported: a rank that is not the tensors', ranks or alphas that differ from layer to layer,
// DoRA, rsLoRA, biases. Errors of the format are SafetensorsFile's.
absl::StatusOr<LoraAdapters> LoadLora(const std::string& path, float scale,
                                      const LoraTargets& targets);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_H_
