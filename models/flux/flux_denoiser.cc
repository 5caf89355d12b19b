#include "models/flux/flux_denoiser.h"

#include "absl/strings/str_cat.h"
#include "models/mmdit/flux_transformer.h"

namespace dpipe::models {
namespace {

// The guidance scale of training. It is what diffusers' examples recommend for dev.
constexpr float kTrainingGuidance = 1;

// Names of a double block's layers in the original implementation, and here.
struct OneStream {
  const char *original, *out, *feed_forward, *modulation;
  const char *q, *k, *v;
};
constexpr OneStream kStreams[] = {
    {"img", "to_out.0", "ff", "norm1", "to_q", "to_k", "to_v"},
    {"txt", "to_add_out", "ff_context", "norm1_context", "add_q_proj", "add_k_proj", "add_v_proj"},
};

}  // namespace

Sources FluxDenoiser::embeddings() const {
  return {{"context", {"text_encoder_2", "last_hidden_state"}},
          {"pooled", {"text_encoder", "pooler_output"}}};
}

std::vector<std::shared_ptr<const Condition>> FluxDenoiser::conditions() const {
  if (!config_.guidance_embeds) return {};
  return {std::make_shared<GuidanceCondition>(kTrainingGuidance)};
}

absl::Status FluxDenoiser::CheckShape(const MmditShape& shape) const {
  return CheckMmditShape(name(), shape);
}

void FluxDenoiser::AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                                 MmditInputs* inputs) const {
  AddMmditConditions(shape, FluxInputSizes(config_), builder, inputs);
}

ValueId FluxDenoiser::AddTransformer(const MmditShape& shape, nn::LayerKind kind,
                                     const MmditInputs& inputs, nn::ProgramBuilder* builder,
                                     const nn::LoraSpec& lora) const {
  return AddFluxTransformer(config_, shape, kind, inputs, builder, lora);
}

// Original names: Black Forest Labs' implementation, with dots replaced by underscores. Their last
// modulation has shift and scale in the other order.
std::vector<KohyaLayer> FluxDenoiser::kohya_layers() const {
  const int64_t width = config_.width(), hidden = 4 * width;
  std::vector<KohyaLayer> layers;
  const auto add = [&layers](const std::string& original,
                             const std::vector<KohyaLayer::Part>& parts,
                             bool swaps_halves = false) {
    layers.push_back({"lora_unet_" + original, parts, swaps_halves});
  };
  add("img_in", {{"x_embedder", width}});
  add("txt_in", {{"context_embedder", width}});
  for (const auto& [original, here] : {std::make_pair("time_in", "timestep_embedder"),
                                       std::make_pair("guidance_in", "guidance_embedder"),
                                       std::make_pair("vector_in", "text_embedder")}) {
    const std::string layer = absl::StrCat("time_text_embed.", here);
    add(absl::StrCat(original, "_in_layer"), {{layer + ".linear_1", width}});
    add(absl::StrCat(original, "_out_layer"), {{layer + ".linear_2", width}});
  }
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string block = absl::StrCat("transformer_blocks.", i, ".");
    for (const OneStream& stream : kStreams) {
      const std::string original = absl::StrCat("double_blocks_", i, "_", stream.original, "_");
      const std::string attention = block + "attn.";
      add(original + "attn_qkv", {{attention + stream.q, width},
                                  {attention + stream.k, width},
                                  {attention + stream.v, width}});
      add(original + "attn_proj", {{attention + stream.out, width}});
      add(original + "mlp_0", {{block + stream.feed_forward + ".net.0.proj", hidden}});
      add(original + "mlp_2", {{block + stream.feed_forward + ".net.2", width}});
      add(original + "mod_lin", {{block + stream.modulation + ".linear", 6 * width}});
    }
  }
  for (int64_t i = 0; i < config_.num_single_layers; ++i) {
    const std::string block = absl::StrCat("single_transformer_blocks.", i, ".");
    const std::string original = absl::StrCat("single_blocks_", i, "_");
    add(original + "linear1", {{block + "attn.to_q", width},
                               {block + "attn.to_k", width},
                               {block + "attn.to_v", width},
                               {block + "proj_mlp", hidden}});
    add(original + "linear2", {{block + "proj_out", width}});
    add(original + "modulation_lin", {{block + "norm.linear", 3 * width}});
  }
  add("final_layer_adaLN_modulation_1", {{"norm_out.linear", 2 * width}}, /*swaps_halves=*/true);
  add("final_layer_linear", {{"proj_out", config_.in_channels}});
  return layers;
}

}  // namespace dpipe::models
