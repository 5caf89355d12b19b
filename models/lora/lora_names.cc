#include "models/lora/lora_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "models/lora/lora.h"

namespace dpipe::models {
namespace {

constexpr struct {
  const char* suffix;
  LoraPart part;
} kSuffixes[] = {
    {nn::kLoraDown, LoraPart::kDown},
    {nn::kLoraUp, LoraPart::kUp},
    {".lora.down.weight", LoraPart::kDown},
    {".lora.up.weight", LoraPart::kUp},
    {".lora_linear_layer.down.weight", LoraPart::kDown},
    {".lora_linear_layer.up.weight", LoraPart::kUp},
    {".lora_down.weight", LoraPart::kDown},
    {".lora_up.weight", LoraPart::kUp},
    // Of attention processors, behind to_q, to_k, to_v or to_out.
    {"_lora.down.weight", LoraPart::kDown},
    {"_lora.up.weight", LoraPart::kUp},
    {".alpha", LoraPart::kAlpha},
};

constexpr struct {
  const char *prefix, *replacement;
  bool of_text_encoder, flat;
} kPrefixes[] = {
    {"unet.", "", false, false},     {"text_encoder.", "", true, false},
    {"lora_unet_", "", false, true}, {"lora_te_", "", true, true},
    {"lora_te1_", "", true, true},
};

// Parts of names of other methods, and what those are.
constexpr struct {
  const char *part, *method;
} kOtherMethods[] = {
    {".hada_w", "LoHa"},
    {".lokr_w", "LoKr"},
    {".dora_scale", "DoRA"},
    {".lora_magnitude_vector", "DoRA"},
    {".lora_mid.", "LoCon with Tucker decomposition"},
    {".lora_B.bias", "LoRA with biases"},
    {"text_encoder_2.", "LoRA for Stable Diffusion XL"},
    {"lora_te2_", "LoRA for Stable Diffusion XL"},
};

// What attention processors called the layers of an attention.
constexpr struct {
  const char *processor, *unet, *text_encoder;
} kProcessorLayers[] = {
    {".to_q", ".to_q", ".q_proj"},
    {".to_k", ".to_k", ".k_proj"},
    {".to_v", ".to_v", ".v_proj"},
    {".to_out", ".to_out.0", ".out_proj"},
};

std::string WithoutProcessor(absl::string_view layer, bool of_text_encoder) {
  for (const auto& known : kProcessorLayers) {
    if (absl::ConsumeSuffix(&layer, known.processor)) {
      return absl::StrCat(layer, of_text_encoder ? known.text_encoder : known.unet);
    }
  }
  return std::string(layer);
}

constexpr char kTextModel[] = "text_model.";

}  // namespace

absl::StatusOr<LoraName> ParseLoraName(absl::string_view name) {
  for (const auto& other : kOtherMethods) {
    if (!absl::StrContains(name, other.part)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is of ", other.method, ", which is not supported, only LoRA is"));
  }
  LoraName parsed;
  absl::string_view layer = name;
  for (const auto& known : kPrefixes) {
    if (!absl::ConsumePrefix(&layer, known.prefix)) continue;
    parsed.of_text_encoder = known.of_text_encoder;
    parsed.flat = known.flat;
    break;
  }
  for (const auto& known : kSuffixes) {
    if (!absl::ConsumeSuffix(&layer, known.suffix) || layer.empty()) continue;
    parsed.part = known.part;
    parsed.layer = absl::StrReplaceAll(layer, {{".processor.", "."}});
    if (known.suffix[0] == '_') {
      parsed.layer = WithoutProcessor(parsed.layer, parsed.of_text_encoder);
    }
    return parsed;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is not a low-rank adapter of a U-Net or text encoder (unet.*", nn::kLoraDown,
      ", unet.*", nn::kLoraUp, ", or the names of diffusers and kohya-ss)"));
}

AdaptableLayers::AdaptableLayers(std::set<std::string> layers) : layers_(std::move(layers)) {
  for (const std::string& layer : layers_) {
    by_flat_name_[absl::StrReplaceAll(layer, {{".", "_"}})] = layer;
  }
}

AdaptableLayers::AdaptableLayers(const nn::Program& program)
    : AdaptableLayers([&program] {
        std::set<std::string> layers;
        for (int i = 0; i < program.num_parameters(); ++i) {
          absl::string_view name = program.parameter(nn::ParameterId(i)).name;
          if (!IsLoraParameter(name) && absl::ConsumeSuffix(&name, ".weight")) {
            layers.emplace(name);
          }
        }
        return layers;
      }()) {}

std::string AdaptableLayers::Find(const LoraName& name) const {
  if (name.flat) {
    const auto found = by_flat_name_.find(name.layer);
    return found == by_flat_name_.end() ? "" : found->second;
  }
  if (layers_.count(name.layer) > 0) return name.layer;
  const std::string inner = absl::StrCat(kTextModel, name.layer);
  return name.of_text_encoder && layers_.count(inner) > 0 ? inner : "";
}

}  // namespace dpipe::models
