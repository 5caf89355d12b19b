#include "models/lora/lora_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/text/show.h"
#include "models/lora/lora.h"

namespace dpipe::models {
namespace {

using Component = LoraName::Component;

constexpr char kPeftPrefix[] = "base_model.model.";
constexpr char kKohyaUNet[] = "lora_unet_";

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
    // Attention processors, after to_q, to_k, to_v or to_out.
    {"_lora.down.weight", LoraPart::kDown},
    {"_lora.up.weight", LoraPart::kUp},
    {".alpha", LoraPart::kAlpha},
};

constexpr struct {
  const char* prefix;
  Component component;
  bool flat;
} kPrefixes[] = {
    {kPeftPrefix, Component::kEither, false},
    {"_orig_mod.", Component::kEither, false},
    {"module.", Component::kEither, false},
    {"unet.", Component::kUNet, false},
    {"transformer.", Component::kUNet, false},
    {"text_encoder.", Component::kTextEncoder, false},
    {"text_encoder_2.", Component::kTextEncoder2, false},
    {kKohyaUNet, Component::kUNet, true},
    {"lora_transformer_", Component::kUNet, true},
    {"lora_te2_", Component::kTextEncoder2, true},
    {"lora_te_", Component::kTextEncoder, true},
    {"lora_te1_", Component::kTextEncoder, true},
    {"lycoris_", Component::kEither, true},
};

// Parts of names that identify other methods; $ is the end of a name.
constexpr struct {
  const char *part, *method;
} kOtherMethods[] = {
    {".hada_", "LoHa"},
    {".lokr_", "LoKr"},
    {".dora_scale", "DoRA"},
    {".lora_magnitude_vector", "DoRA"},
    {".lora_mid.", "LoCon with Tucker decomposition"},
    {".lora_B.bias", "LoRA with biases"},
    {".lora_up.bias", "LoRA with biases"},
    {".lora_embedding_", "LoRA of embeddings"},
    {".oft_", "OFT"},
    {".diff$", "LyCORIS with whole weights"},
    {".diff_b$", "LyCORIS with whole weights"},
    {".w_norm", "LyCORIS with norms"},
    {".b_norm", "LyCORIS with norms"},
};

// Names of an attention's layers in attention processors.
constexpr struct {
  const char *processor, *unet, *text_encoder;
} kProcessorLayers[] = {
    {".to_q", ".to_q", ".q_proj"},
    {".to_k", ".to_k", ".k_proj"},
    {".to_v", ".to_v", ".v_proj"},
    {".to_out", ".to_out.0", ".out_proj"},
};

constexpr char kTextModel[] = "text_model.";

std::string WithoutProcessor(absl::string_view layer, bool of_text_encoder) {
  for (const auto& known : kProcessorLayers) {
    if (absl::ConsumeSuffix(&layer, known.processor)) {
      return absl::StrCat(layer, of_text_encoder ? known.text_encoder : known.unet);
    }
  }
  return std::string(layer);
}

// LAYER.lora_A.NAME.weight -> LAYER.lora_A.weight.
std::string WithoutAdapterName(absl::string_view name) {
  absl::string_view rest = name;
  if (!absl::ConsumeSuffix(&rest, ".weight")) return std::string(name);
  const size_t dot = rest.rfind('.');
  if (dot == absl::string_view::npos) return std::string(name);
  rest = rest.substr(0, dot);
  for (const char* part : {".lora_A", ".lora_B"}) {
    if (absl::EndsWith(rest, part)) return absl::StrCat(rest, ".weight");
  }
  return std::string(name);
}

std::string Flat(absl::string_view layer) { return absl::StrReplaceAll(layer, {{".", "_"}}); }

// Removes prefixes and records what they mean.
void ConsumePrefixes(absl::string_view* name, LoraName* parsed) {
  for (bool found = true; found && !parsed->flat;) {
    found = false;
    for (const auto& known : kPrefixes) {
      if (!absl::ConsumePrefix(name, known.prefix)) continue;
      found = true;
      if (known.component != Component::kEither) parsed->component = known.component;
      parsed->flat = known.flat;
      break;
    }
  }
}

}  // namespace

absl::StatusOr<std::optional<LoraName>> ParseLoraName(absl::string_view name) {
  const std::string with_end = absl::StrCat(name, "$");
  for (const auto& other : kOtherMethods) {
    if (!absl::StrContains(with_end, other.part)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(ShowText(name), " belongs to ", other.method,
                     ", which is not supported (only LoRA is); merge the adapters into the model "
                     "with the tool that made them"));
  }
  LoraName parsed;
  const std::string plain = WithoutAdapterName(name);
  absl::string_view layer = plain;
  ConsumePrefixes(&layer, &parsed);
  for (const auto& known : kSuffixes) {
    if (!absl::ConsumeSuffix(&layer, known.suffix) || layer.empty()) continue;
    parsed.part = known.part;
    parsed.layer = absl::StrReplaceAll(layer, {{".processor.", "."}});
    if (known.suffix[0] == '_') {
      const bool of_text_encoder = parsed.component == Component::kTextEncoder ||
                                   parsed.component == Component::kTextEncoder2;
      parsed.layer = WithoutProcessor(parsed.layer, of_text_encoder);
    }
    return parsed;
  }
  return std::nullopt;
}

bool IsPeftName(absl::string_view name) { return absl::StartsWith(name, kPeftPrefix); }

absl::string_view WithoutLoraPrefixes(absl::string_view name) {
  LoraName ignored;
  ConsumePrefixes(&name, &ignored);
  return name;
}

AdaptableLayers::AdaptableLayers(std::set<std::string> layers) : layers_(std::move(layers)) {
  for (const std::string& layer : layers_) by_flat_name_[Flat(layer)] = layer;
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
  for (const char* before : {"", kTextModel}) {
    const std::string layer = absl::StrCat(before, name.layer);
    if (name.flat) {
      const auto found = by_flat_name_.find(Flat(layer));
      if (found != by_flat_name_.end()) return found->second;
    } else if (layers_.count(layer) > 0) {
      return layer;
    }
  }
  return "";
}

bool AdaptableLayers::HasParameter(absl::string_view name) const {
  if (!absl::ConsumeSuffix(&name, ".weight") && !absl::ConsumeSuffix(&name, ".bias")) return false;
  return !Find({Component::kEither, LoraPart::kDown, std::string(name)}).empty();
}

std::string KohyaLayerName(absl::string_view layer) {
  return absl::StrCat(kKohyaUNet, Flat(layer));
}

}  // namespace dpipe::models
