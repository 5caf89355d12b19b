// How files of low-rank adapters name their tensors. Read are
//
//   peft            unet.LAYER.lora_A.weight, .lora_B.weight
//   diffusers       unet.LAYER.lora.down.weight, .lora.up.weight; of a text encoder
//                   text_encoder.LAYER.lora_linear_layer.down.weight, .up.weight
//   diffusers until 0.20, attention processors
//                   unet.ATTENTION.processor.to_q_lora.down.weight, .up.weight
//   kohya-ss, LyCORIS (LoCon)
//                   lora_unet_LAYER.lora_down.weight, .lora_up.weight with underscores in the place
//                   of LAYER's dots; lora_te_LAYER of a text encoder
//
// and beside each a scalar LAYER.alpha. Without "unet." a name is the U-Net's too. Sources:
// diffusers utils/state_dict_utils.py, loaders/lora_conversion_utils.py.
#ifndef DPIPE_MODELS_LORA_LORA_NAMES_H_
#define DPIPE_MODELS_LORA_LORA_NAMES_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/program.h"

namespace dpipe::models {

enum class LoraPart { kDown, kUp, kAlpha };

struct LoraName {
  bool of_text_encoder = false;
  LoraPart part = LoraPart::kDown;
  std::string layer;  // as the file has it
  bool flat = false;  // kohya's: with underscores in the place of dots
};

// InvalidArgument where the name is not of those above; it says so where the name is known to be of
// another method (LoHa, LoKr, DoRA, Tucker decomposition) or of a second text encoder.
absl::StatusOr<LoraName> ParseLoraName(absl::string_view name);

// The layers of a component that adapters may be of. Immutable.
class AdaptableLayers {
 public:
  AdaptableLayers() = default;
  explicit AdaptableLayers(std::set<std::string> layers);
  // Those of a program that have a weight.
  explicit AdaptableLayers(const nn::Program& program);

  // The name, with dots, of the layer that is meant; empty: there is none. Those of a text encoder
  // may be without "text_model.", as transformers 5 has them.
  std::string Find(const LoraName& name) const;

 private:
  std::set<std::string> layers_;
  std::map<std::string, std::string> by_flat_name_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_LORA_NAMES_H_
