// Low-rank adapters among a model's parameters (core/nn/blocks/lora.h): separates them, merges them
// into the weights that they adapt, and exchanges them with diffusers, PEFT and kohya-ss.
//
// A file of adapters is a safetensors file with the names of lora_names.h. An adapter's scale is
// alpha / rank if the file has a scalar "alpha" for it. Otherwise it comes from PEFT's
// configuration beside the file or in its metadata (adapter_config.h). Without either it is 1.
#ifndef DPIPE_MODELS_LORA_LORA_H_
#define DPIPE_MODELS_LORA_LORA_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/lora/kohya_layers.h"
#include "models/lora/lora_names.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// File names in a folder, as in diffusers' load_lora_weights and in PEFT.
inline constexpr char kLoraFile[] = "pytorch_lora_weights.safetensors";
inline constexpr char kPeftLoraFile[] = "adapter_model.safetensors";

// True if this is one of an adapter's two parameters.
bool IsLoraParameter(absl::string_view name);

struct SplitParameters {
  NamedTensors base, adapters;  // share storage with the original
};
SplitParameters SplitLora(const NamedTensors& parameters);

// Returns the base with scale * B A added to every weight that `adapters` adapt; other tensors
// share storage. For a convolution's weight [out, in, kernel], A is [rank, in, kernel] and B is
// [out, rank]; a matrix may be stored as a 1 x 1 convolution. Returns InvalidArgument with the
// adapter's name if its other half or its weight is missing, or if shapes are incompatible.
//
// Products are oneDNN's, in fp32, on all allowed cores. The result does not depend on their number.
absl::StatusOr<NamedTensors> MergeLora(const NamedTensors& base, const NamedTensors& adapters,
                                       float scale);
// The same in place: writes the storage of *base, which must not be shared. After an error about
// the adapters, *base is unchanged.
absl::Status MergeLoraInto(const NamedTensors& adapters, float scale, NamedTensors* base);

// The layers to which a file's adapters may apply.
struct LoraTargets {
  AdaptableLayers unet, text_encoder;   // "unet" stands for any denoiser
  AdaptableLayers text_encoder_2 = {};  // empty: the model has no such component
  // The denoiser's subfolder, with which the names of its layers begin in diffusers' files.
  std::string denoiser = "unet";
  // Layers of the denoiser whose names in kohya's files do not follow the rule for U-Nets.
  std::vector<KohyaLayer> kohya_layers = {};
};

// Adapters named LAYER.lora_A.weight and LAYER.lora_B.weight, with the components' own layer names.
struct LoraAdapters {
  NamedTensors unet, text_encoder, text_encoder_2;
  std::vector<std::string> notes;  // sentences for the user about unused parts of the file
};

// Returns the file of adapters at `path`: the path itself, or the file in a folder that has one of
// the names above. Returns NotFound if there is none; the message then lists the weight files in
// the folder.
absl::StatusOr<std::string> FindLoraFile(const std::string& path);

// Returns the adapters of a file in fp32. The file's own scale is multiplied into them; callers
// apply the U-Net's adapters with `scale` and the text encoders' with 1. Leaves out, with a note,
// tensors that belong to no adapter or to no layer of `targets`.
//
// Returns InvalidArgument if no tensor remains, a tensor belongs to a second text encoder and
// `targets` has none, a value is NaN or infinite, a rank differs from the configuration's, or a
// tensor changes the result in an unsupported way (ParseLoraName, AdapterConfig, whole weights).
// Errors of the format are those of SafetensorsFile.
absl::StatusOr<LoraAdapters> LoadLora(const std::string& path, float scale,
                                      const LoraTargets& targets);

// Naming of the tensors in a written file.
enum class LoraFormat {
  // "unet.LAYER.lora_A.weight" or "transformer.LAYER.lora_A.weight". The scale is multiplied into
  // the up parts, because diffusers' readers use a scale of 1.
  kDiffusers,
  // "lora_unet_LAYER.lora_down.weight" with alpha = scale * rank in fp32, for kohya-ss, ComfyUI,
  // AUTOMATIC1111 and diffusers. Layers of LoraTargets::kohya_layers are joined.
  kKohya,
};

// Parses "diffusers" or "kohya"; returns InvalidArgument for another name.
absl::StatusOr<LoraFormat> ParseLoraFormat(const std::string& name);

// Writes adapters of a denoiser, whose names `targets` tell. The file is written atomically.
absl::Status SaveLora(const std::string& path, const NamedTensors& adapters, float scale,
                      LoraFormat names, StoredFormat format, const LoraTargets& targets = {});

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_H_
