#include "models/single_file/stored_component.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/show.h"
#include "models/clip_text/clip_text.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"
#include "models/t5/t5.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {
namespace {

enum class Network { kUNet, kVae, kClip, kSd3Clip, kT5, kSd3, kFlux };

struct Slot {
  const char* component;
  Network network;
  std::vector<const char*> prefixes;  // of its forms, in order of preference
};

struct Family {
  const char* class_name;
  std::vector<Slot> slots;
};

// OpenCLIP's text encoders end in this; others have transformers' names.
constexpr char kOpenClip[] = ".model.";

// Prefixes of CompVis (Stable Diffusion 1 and 2), Stability AI (SDXL, SD 3) and ComfyUI. Files of
// a transformer alone have no prefix.
const std::vector<Family>& Families() {
  static const auto* const families = new std::vector<Family>{
      {"StableDiffusionPipeline",
       {{"unet", Network::kUNet, {"model.diffusion_model."}},
        {"vae", Network::kVae, {"first_stage_model.", "vae."}},
        {"text_encoder",
         Network::kClip,
         {"cond_stage_model.transformer.", "cond_stage_model.model."}}}},
      {"StableDiffusionXLPipeline",
       {{"unet", Network::kUNet, {"model.diffusion_model."}},
        {"vae", Network::kVae, {"first_stage_model.", "vae."}},
        {"text_encoder", Network::kClip, {"conditioner.embedders.0.transformer."}},
        {"text_encoder_2", Network::kClip, {"conditioner.embedders.1.model."}}}},
      {"StableDiffusion3Pipeline",
       {{"transformer", Network::kSd3, {"model.diffusion_model.", ""}},
        {"vae", Network::kVae, {"first_stage_model.", "vae."}},
        {"text_encoder", Network::kSd3Clip, {"text_encoders.clip_l.transformer."}},
        {"text_encoder_2", Network::kClip, {"text_encoders.clip_g.transformer."}},
        {"text_encoder_3", Network::kT5, {"text_encoders.t5xxl.transformer."}}}},
      {"FluxPipeline",
       {{"transformer", Network::kFlux, {"model.diffusion_model.", ""}},
        {"vae", Network::kVae, {"vae.", "first_stage_model."}},
        {"text_encoder", Network::kClip, {"text_encoders.clip_l.transformer."}},
        {"text_encoder_2", Network::kT5, {"text_encoders.t5xxl.transformer."}}}},
  };
  return *families;
}

// Appends the parameters of a program.
absl::Status AddParameters(const absl::StatusOr<nn::Program>& program, StoredComponent* component) {
  if (!program.ok()) return program.status();
  for (int i = 0; i < program->num_parameters(); ++i) {
    component->parameters.push_back(program->parameter(nn::ParameterId(i)));
  }
  return absl::OkStatus();
}

void AddForms(const Slot& slot, const OriginalLayout& layout, StoredComponent* component) {
  for (const char* prefix : slot.prefixes) component->forms.push_back({prefix, layout, {}, {}});
}

// Parameters do not depend on the size of pictures and the length of texts, so programs are built
// for the smallest.

absl::Status AddUNet(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const UNetConfig config, ReadUNetConfig(path));
  if (config.further_input != FurtherInput::kNone) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": '", kFurtherInputKey, "' is \"",
                                                   FurtherInputName(config.further_input),
                                                   "\"; the original layout has no such input"));
  }
  const int64_t side = int64_t{1} << (config.num_levels() - 1);
  AddForms(slot, UNetLayout(config), component);
  return AddParameters(BuildUNetForInference(config, {side, side}), component);
}

absl::Status AddVae(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const VaeConfig config, ReadVaeConfig(path));
  AddForms(slot, VaeLayout(config.num_levels()), component);
  const int64_t side = config.downscale();
  DPIPE_RETURN_IF_ERROR(AddParameters(BuildVaeEncoder(config, side, side), component));
  return AddParameters(BuildVaeDecoder(config, side, side), component);
}

absl::Status AddClip(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const ClipTextConfig config, ReadClipTextConfig(path));
  ClipTextOutputs all;
  all.pooled = config.with_projection;
  const std::string projection = "text_projection.weight";
  const bool needs_identity = slot.network == Network::kSd3Clip && config.with_projection;
  if (needs_identity && config.projection_size != config.hidden_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": 'projection_dim' is ", config.projection_size, " and 'hidden_size' ",
        config.hidden_size, "; the original layout has no projection here, so they must be equal"));
  }
  for (const char* prefix : slot.prefixes) {
    OriginalForm form = {
        prefix, SameNames(), {"text_model.embeddings.position_ids", "logit_scale"}};
    if (absl::EndsWith(prefix, kOpenClip)) {
      // The pipelines of Stable Diffusion 2 read the state before the last layer, which diffusers'
      // folders lack.
      form = {prefix,
              OpenClipLayout(),
              {"logit_scale", "attn_mask",
               absl::StrCat("transformer.resblocks.", config.num_layers, ".")}};
      if (!config.with_projection) form.ignored.push_back("text_projection");
    } else if (!config.with_projection || needs_identity) {
      form.ignored.push_back("text_projection.");
    }
    if (needs_identity) form.layout = WithIdentity(form.layout, projection);
    component->forms.push_back(std::move(form));
  }
  // Stable Diffusion 1 has OpenAI's CLIP; version 2 has an OpenCLIP, which has another activation.
  if (component->forms.size() > 1 && config.activation == ops::Activation::kGelu) {
    std::swap(component->forms[0], component->forms[1]);
  }
  component->file = kTransformersWeights;
  component->ignored_prefixes = UnusedClipTextPrefixes(config, all);
  return AddParameters(BuildClipText(config, /*length=*/1, nn::LayerKind::kFrozen, all), component);
}

absl::Status AddT5(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const T5Config config, ReadT5Config(path));
  AddForms(slot, SameNames(), component);
  for (OriginalForm& form : component->forms) {
    form.ignored = {"spiece_model"};
    // diffusers looks for the first, and transformers 5 needs the second.
    form.second_names = {{"shared.weight", absl::StrCat(kT5SecondTable, "weight")}};
  }
  component->file = kTransformersWeights;
  component->ignored_prefixes = {kT5SecondTable};
  return AddParameters(BuildT5Encoder(config, /*length=*/1), component);
}

absl::Status AddSd3(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const Sd3TransformerConfig config, ReadSd3TransformerConfig(path));
  AddForms(slot, TransformerLayout(Sd3OriginalNames(config)), component);
  nn::ParameterInfo positions;
  positions.name = "pos_embed.pos_embed";
  positions.shape =
      Shape({1, config.pos_embed_max_size * config.pos_embed_max_size, config.width()});
  component->parameters.push_back(positions);
  const MmditShape smallest = {kMmditPatch, kMmditPatch, 1};
  return AddParameters(BuildSd3Transformer(config, smallest, nn::LayerKind::kFrozen), component);
}

absl::Status AddFlux(const std::string& path, const Slot& slot, StoredComponent* component) {
  DPIPE_ASSIGN_OR_RETURN(const FluxTransformerConfig config, ReadFluxTransformerConfig(path));
  AddForms(slot, TransformerLayout(FluxOriginalNames(config)), component);
  const MmditShape smallest = {kMmditPatch, kMmditPatch, 1};
  return AddParameters(BuildFluxTransformer(config, smallest, nn::LayerKind::kFrozen), component);
}

absl::Status AddNetwork(const std::string& path, const Slot& slot, StoredComponent* component) {
  switch (slot.network) {
    case Network::kUNet:
      return AddUNet(path, slot, component);
    case Network::kVae:
      return AddVae(path, slot, component);
    case Network::kClip:
    case Network::kSd3Clip:
      return AddClip(path, slot, component);
    case Network::kT5:
      return AddT5(path, slot, component);
    case Network::kSd3:
      return AddSd3(path, slot, component);
    case Network::kFlux:
      return AddFlux(path, slot, component);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<StoredComponent>> ReadStoredComponents(const PipelineFolder& folder) {
  std::vector<std::string> supported;
  for (const Family& family : Families()) {
    supported.push_back(family.class_name);
    if (folder.index().class_name != family.class_name) continue;
    std::vector<StoredComponent> components;
    for (const Slot& slot : family.slots) {
      if (folder.index().components.count(slot.component) == 0) continue;
      StoredComponent component;
      component.name = slot.component;
      component.file = kDiffusersWeights;
      DPIPE_RETURN_IF_ERROR(AddNetwork(folder.ConfigOf(slot.component), slot, &component));
      components.push_back(std::move(component));
    }
    return components;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      folder.path(), "/model_index.json: there is no single-file layout for a ",
      ShowText(folder.index().class_name), "; there is one for ", absl::StrJoin(supported, ", ")));
}

}  // namespace dpipe::models
