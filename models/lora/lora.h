// Low-rank adapters among a model's parameters (core/nn/blocks/lora.h): told apart, merged into
// what they adapt, and exchanged with diffusers, PEFT and kohya-ss.
//
// A file of adapters is a safetensors file. lora_names.h has the names that are read. How often an
// adapter counts is said by a scalar "alpha" beside it (alpha / rank times), or by PEFT's
// configuration beside the file or in its metadata (adapter_config.h), or by nothing (once).
#ifndef DPIPE_MODELS_LORA_LORA_H_
#define DPIPE_MODELS_LORA_LORA_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/lora/lora_names.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// The names that are looked for in a folder: by diffusers' load_lora_weights, and by PEFT.
inline constexpr char kLoraFile[] = "pytorch_lora_weights.safetensors";
inline constexpr char kPeftLoraFile[] = "adapter_model.safetensors";

// True if this is one of an adapter's two parameters.
bool IsLoraParameter(absl::string_view name);

struct SplitParameters {
  NamedTensors base, adapters;  // storage is shared with what was split
};
SplitParameters SplitLora(const NamedTensors& parameters);

// The base with scale * B A added to every weight that `adapters` adapt; all else shares storage.
// Of a convolution's weight [out, in, kernel], A is [rank, in, kernel] and B is [out, rank]; a
// matrix may be stored as a 1 x 1 convolution. InvalidArgument names an adapter whose other half or
// whose weight is missing, or shapes that do not go together.
// Products are the library's, in fp32, on all allowed cores; the result does not depend on how many
// they are.
absl::StatusOr<NamedTensors> MergeLora(const NamedTensors& base, const NamedTensors& adapters,
                                       float scale);
// The same in place: writes the storage of *base, which nothing else may share. After an error
// about the adapters it is as it was.
absl::Status MergeLoraInto(const NamedTensors& adapters, float scale, NamedTensors* base);

// The layers that a file's adapters may be of.
struct LoraTargets {
  AdaptableLayers unet, text_encoder;
};

// Named LAYER.lora_A.weight and LAYER.lora_B.weight by the components' own names of layers.
struct LoraAdapters {
  NamedTensors unet, text_encoder;
  std::vector<std::string> notes;  // sentences about what of the file is not used, for a person
};

// The file of adapters that a user means by `path`: itself, or the one in a folder that has a name
// from above. NotFound if there is none; the error says what there is in its place.
absl::StatusOr<std::string> FindLoraFile(const std::string& path);

// The adapters of a file, fp32, the U-Net's as those that count `scale` times, the text encoder's
// once: what the file says about how often they count is multiplied into them. Tensors that are
// none of an adapter, or of a layer that there is not, are left out, with a note. InvalidArgument
// if none is left; if a tensor changes the result in a way that is not supported (ParseLoraName,
// AdapterConfig, whole weights); if a value is NaN or infinite, or a rank another one than is said.
// Errors of the format are SafetensorsFile's.
absl::StatusOr<LoraAdapters> LoadLora(const std::string& path, float scale,
                                      const LoraTargets& targets);

// How a file that is written names its tensors.
enum class LoraFormat {
  // "unet.LAYER.lora_A.weight"; the scale is multiplied into the up parts, so that a reader needs
  // none: to diffusers' it is 1.
  kDiffusers,
  // "lora_unet_LAYER.lora_down.weight" with alpha = scale * rank in fp32: what kohya-ss, ComfyUI
  // and AUTOMATIC1111 read, and diffusers, too.
  kKohya,
};

// "diffusers", "kohya"; InvalidArgument for another name.
absl::StatusOr<LoraFormat> ParseLoraFormat(const std::string& name);

// Writes adapters of a U-Net. The file appears whole or not at all.
absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      LoraFormat names, StoredFormat format);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_H_
