// How files of low-rank adapters name their tensors. Read are
//
//   PEFT            LAYER.lora_A.weight, LAYER.lora_B.weight, also with the adapter's name:
//                   LAYER.lora_A.default.weight
//   diffusers       LAYER.lora.down.weight, .lora.up.weight; of a text encoder
//                   LAYER.lora_linear_layer.down.weight, .up.weight
//   diffusers until 0.20, attention processors
//                   ATTENTION.processor.to_q_lora.down.weight, .up.weight
//   kohya-ss, LyCORIS (LoCon)
//                   lora_unet_LAYER.lora_down.weight, .lora_up.weight with underscores in the place
//                   of LAYER's dots; lora_te_LAYER or lora_te1_LAYER of a text encoder;
//                   lycoris_LAYER of either
//
// and beside each a scalar LAYER.alpha. Before LAYER may be "unet." or "text_encoder."; without, a
// name is of whichever has the layer. PEFT's "base_model.model." and the wrappers of torch.compile
// and DataParallel are dropped. A text encoder's layers are with or without "text_model.", as
// transformers 5 has them. Sources: diffusers utils/state_dict_utils.py,
// loaders/lora_conversion_utils.py; peft utils/save_and_load.py.
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
  enum class Component { kUNet, kTextEncoder, kEither };
  Component component = Component::kEither;
  LoraPart part = LoraPart::kDown;
  std::string layer;  // as the file has it
  bool flat = false;  // kohya's: with underscores in the place of dots
};

// Nothing if the name is none of an adapter. InvalidArgument if it is known to be of another method
// that changes the result (LoHa, LoKr, DoRA, Tucker decomposition, ...) or of a second text
// encoder.
absl::StatusOr<std::optional<LoraName>> ParseLoraName(absl::string_view name);

// True if the name begins with "base_model.model.", which PEFT's own files do. How much their
// adapters count is in a file beside them.
bool IsPeftName(absl::string_view name);

// The name without what ParseLoraName leaves away at its beginning.
absl::string_view WithoutLoraPrefixes(absl::string_view name);

// The layers of a component that adapters may be of. Immutable.
class AdaptableLayers {
 public:
  AdaptableLayers() = default;
  explicit AdaptableLayers(std::set<std::string> layers);
  // Those of a program that have a weight.
  explicit AdaptableLayers(const nn::Program& program);

  // Returns the name, with dots, of the layer that is meant; empty if there is none.
  std::string Find(const LoraName& name) const;
  // True if the name is that of a layer's weight or bias itself.
  bool HasParameter(absl::string_view name) const;

 private:
  std::set<std::string> layers_;
  std::map<std::string, std::string> by_flat_name_;
};

// The name of a U-Net's layer in kohya's files: "lora_unet_mid_block_attentions_0".
std::string KohyaLayer(absl::string_view layer);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_NAMES_H_
