#include "models/mmdit/original_names.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/lora/lora_names.h"
#include "models/mmdit/mmdit_parts.h"

namespace dpipe::models {
namespace {

// Names of the image's or the text's layers of a joint block: of both originals, and of diffusers.
struct Stream {
  const char *sd3, *flux;
  const char *q, *k, *v, *norm_q, *norm_k, *out, *feed_forward, *modulation;
};
constexpr Stream kImage = {"x_block", "img_",   "to_q",     "to_k", "to_v",
                           "norm_q",  "norm_k", "to_out.0", "ff",   "norm1"};
constexpr Stream kText = {"context_block", "txt_",         "add_q_proj",   "add_k_proj",
                          "add_v_proj",    "norm_added_q", "norm_added_k", "to_add_out",
                          "ff_context",    "norm1_context"};

// Adds the layers of an embedder, which ends in `first` and `second` in the original.
void AddEmbedder(const std::string& original, const std::string& first, const std::string& second,
                 const std::string& layer, int64_t width, OriginalNames* names) {
  const std::string ours = absl::StrCat("time_text_embed.", layer, ".linear_");
  names->linear_layers.push_back({original + first, {{ours + "1", width}}});
  names->linear_layers.push_back({original + second, {{ours + "2", width}}});
}

// Adds the layers behind the blocks.
void AddOutput(int64_t width, int64_t out, OriginalNames* names) {
  names->linear_layers.push_back({"final_layer.adaLN_modulation.1",
                                  {{"norm_out.linear", 2 * width}},
                                  /*swaps_halves=*/true});
  names->linear_layers.push_back({"final_layer.linear", {{"proj_out", out}}});
}

// Returns queries, keys and values, which are one layer in the originals.
std::vector<KohyaLayer::Part> Qkv(const std::string& attention, const Stream& stream,
                                  int64_t width) {
  return {
      {attention + stream.q, width}, {attention + stream.k, width}, {attention + stream.v, width}};
}

void AddNorms(const std::string& attention, const Stream& stream, const std::string& original_q,
              const std::string& original_k, OriginalNames* names) {
  names->other_tensors[absl::StrCat(attention, stream.norm_q, ".weight")] = original_q;
  names->other_tensors[absl::StrCat(attention, stream.norm_k, ".weight")] = original_k;
}

}  // namespace

OriginalNames Sd3OriginalNames(const Sd3TransformerConfig& config) {
  const int64_t width = config.width(), hidden = 4 * width;
  OriginalNames names;
  const auto add = [&names](const std::string& original, std::vector<KohyaLayer::Part> parts,
                            bool swaps_halves = false) {
    names.linear_layers.push_back({original, std::move(parts), swaps_halves});
  };
  add("context_embedder", {{"context_embedder", width}});
  AddEmbedder("t_embedder.mlp.", "0", "2", "timestep_embedder", width, &names);
  AddEmbedder("y_embedder.mlp.", "0", "2", "text_embedder", width, &names);
  names.other_tensors = {{"pos_embed.pos_embed", "pos_embed"},
                         {"pos_embed.proj.weight", "x_embedder.proj.weight"},
                         {"pos_embed.proj.bias", "x_embedder.proj.bias"}};
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block = absl::StrCat("transformer_blocks.", i, ".");
    for (const Stream* stream : {&kImage, &kText}) {
      const bool is_image = stream == &kImage;
      const std::string original = absl::StrCat("joint_blocks.", i, ".", stream->sd3, ".");
      const bool is_read_only = !is_image && i + 1 == config.num_layers;
      const bool is_dual = is_image && config.dual_attention[i];
      for (const std::string name : {"attn.", "attn2."}) {
        if (name == "attn2." && !is_dual) continue;
        add(original + name + "qkv", Qkv(block + name, *stream, width));
        if (!is_read_only) add(original + name + "proj", {{block + name + stream->out, width}});
        AddNorms(block + name, *stream, original + name + "ln_q.weight",
                 original + name + "ln_k.weight", &names);
      }
      const int64_t vectors = is_read_only ? 2 : is_dual ? 9 : 6;
      add(original + "adaLN_modulation.1",
          {{absl::StrCat(block, stream->modulation, ".linear"), vectors * width}}, is_read_only);
      if (is_read_only) continue;
      add(original + "mlp.fc1",
          {{absl::StrCat(block, stream->feed_forward, ".net.0.proj"), hidden}});
      add(original + "mlp.fc2", {{absl::StrCat(block, stream->feed_forward, ".net.2"), width}});
    }
  }
  AddOutput(width, kMmditPatch * kMmditPatch * config.out_channels, &names);
  return names;
}

OriginalNames FluxOriginalNames(const FluxTransformerConfig& config) {
  const int64_t width = config.width(), hidden = 4 * width;
  OriginalNames names;
  const auto add = [&names](const std::string& original, std::vector<KohyaLayer::Part> parts) {
    names.linear_layers.push_back({original, std::move(parts)});
  };
  add("img_in", {{"x_embedder", width}});
  add("txt_in", {{"context_embedder", width}});
  AddEmbedder("time_in.", "in_layer", "out_layer", "timestep_embedder", width, &names);
  AddEmbedder("guidance_in.", "in_layer", "out_layer", "guidance_embedder", width, &names);
  AddEmbedder("vector_in.", "in_layer", "out_layer", "text_embedder", width, &names);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block = absl::StrCat("transformer_blocks.", i, "."),
                      attention = block + "attn.";
    for (const Stream* stream : {&kImage, &kText}) {
      const std::string original = absl::StrCat("double_blocks.", i, ".", stream->flux);
      add(original + "attn.qkv", Qkv(attention, *stream, width));
      add(original + "attn.proj", {{attention + stream->out, width}});
      AddNorms(attention, *stream, original + "attn.norm.query_norm.scale",
               original + "attn.norm.key_norm.scale", &names);
      add(original + "mlp.0", {{absl::StrCat(block, stream->feed_forward, ".net.0.proj"), hidden}});
      add(original + "mlp.2", {{absl::StrCat(block, stream->feed_forward, ".net.2"), width}});
      add(original + "mod.lin", {{absl::StrCat(block, stream->modulation, ".linear"), 6 * width}});
    }
  }
  for (int64_t i = 0; i < config.num_single_layers; ++i) {
    const std::string block = absl::StrCat("single_transformer_blocks.", i, ".");
    const std::string original = absl::StrCat("single_blocks.", i, ".");
    std::vector<KohyaLayer::Part> parts = Qkv(block + "attn.", kImage, width);
    parts.push_back({block + "proj_mlp", hidden});
    add(original + "linear1", std::move(parts));
    add(original + "linear2", {{block + "proj_out", width}});
    add(original + "modulation.lin", {{block + "norm.linear", 3 * width}});
    AddNorms(block + "attn.", kImage, original + "norm.query_norm.scale",
             original + "norm.key_norm.scale", &names);
  }
  AddOutput(width, config.in_channels, &names);
  return names;
}

std::vector<KohyaLayer> KohyaLayersOf(const OriginalNames& names) {
  std::vector<KohyaLayer> layers;
  for (const OriginalLayer& layer : names.linear_layers) {
    layers.push_back({KohyaLayerName(layer.name), layer.parts, layer.swaps_halves});
  }
  return layers;
}

}  // namespace dpipe::models
