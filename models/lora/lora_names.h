// Names of tensors in files of low-rank adapters. These are read:
//
//   PEFT            LAYER.lora_A.weight, LAYER.lora_B.weight, also with the adapter's name:
//                   LAYER.lora_A.default.weight
//   diffusers       LAYER.lora.down.weight, .lora.up.weight; for a text encoder
//                   LAYER.lora_linear_layer.down.weight, .up.weight
//   diffusers until 0.20, attention processors
//                   ATTENTION.processor.to_q_lora.down.weight, .up.weight
//   kohya-ss, LyCORIS (LoCon)
//                   lora_unet_LAYER.lora_down.weight, .lora_up.weight, with LAYER's dots replaced
//                   by underscores; lora_te_LAYER or lora_te1_LAYER for a text encoder,
//                   lora_te2_LAYER for a second one; lycoris_LAYER for any
//
// and beside each a scalar LAYER.alpha. LAYER may follow "unet.", "transformer.", "text_encoder."
// or "text_encoder_2."; otherwise a name belongs to the component that has the layer. PEFT's
// "base_model.model." and the prefixes of torch.compile and DataParallel are removed. A text
// encoder's layers may have "text_model." or lack it, as in transformers 5. Sources: diffusers
// utils/state_dict_utils.py, loaders/lora_conversion_utils.py; peft utils/save_and_load.py.
#ifndef DPIPE_MODELS_LORA_LORA_NAMES_H_
#define DPIPE_MODELS_LORA_LORA_NAMES_H_

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/program.h"

namespace dpipe::models {

enum class LoraPart { kDown, kUp, kAlpha };

struct LoraName {
  enum class Component { kUNet, kTextEncoder, kTextEncoder2, kEither };  // kUNet: any denoiser
  Component component = Component::kEither;
  LoraPart part = LoraPart::kDown;
  std::string layer;  // as in the file
  bool flat = false;  // kohya's: with underscores instead of dots
};

// Returns an empty optional if the name does not belong to an adapter. Returns InvalidArgument if
// it belongs to another method that changes the result (LoHa, LoKr, DoRA, Tucker decomposition,
// ...).
absl::StatusOr<std::optional<LoraName>> ParseLoraName(absl::string_view name);

// True if the name begins with "base_model.model.", as in PEFT's own files, whose scales are in a
// file beside them.
bool IsPeftName(absl::string_view name);

// Returns the name without the prefixes that ParseLoraName removes.
absl::string_view WithoutLoraPrefixes(absl::string_view name);

// The layers of a component that adapters can adapt. Immutable.
class AdaptableLayers {
 public:
  AdaptableLayers() = default;
  explicit AdaptableLayers(std::set<std::string> layers);
  // The layers of a program that have a weight.
  explicit AdaptableLayers(const nn::Program& program);

  bool empty() const { return layers_.empty(); }
  // Returns the dotted name of the layer that `name` refers to; empty if there is none.
  std::string Find(const LoraName& name) const;
  // True if the name is that of a layer's own weight or bias.
  bool HasParameter(absl::string_view name) const;

 private:
  std::set<std::string> layers_;
  std::map<std::string, std::string> by_flat_name_;
};

// Returns the name of a U-Net's layer in kohya's files: "lora_unet_mid_block_attentions_0".
std::string KohyaLayerName(absl::string_view layer);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_NAMES_H_
