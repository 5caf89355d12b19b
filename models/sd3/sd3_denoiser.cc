#include "models/sd3/sd3_denoiser.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/shape_nodes.h"
#include "models/mmdit/sd3_transformer.h"

namespace dpipe::models {
namespace {

constexpr char kPositionTable[] = "pos_embed.pos_embed";

// Names of a block's layers in the original implementation, and here.
struct OneStream {
  const char *original, *out, *feed_forward, *modulation;
  const char *q, *k, *v;
};
constexpr OneStream kImage = {"x_block", "to_out.0", "ff", "norm1", "to_q", "to_k", "to_v"};
constexpr OneStream kText = {"context_block", "to_add_out", "ff_context", "norm1_context",
                             "add_q_proj",    "add_k_proj", "add_v_proj"};

// x [T, C] -> [T, width] with zeros after x. There is no node for constants, so these are x times
// zero.
ValueId PadChannels(nn::ProgramBuilder* builder, ValueId x, int64_t width) {
  const int64_t own = builder->shape(x)[1];
  if (own == width) return x;
  const ValueId zeros = nn::AddScale(builder, x, 0);
  std::vector<ValueId> parts = {x};
  for (int64_t left = width - own; left > 0; left -= own) {
    parts.push_back(left >= own ? zeros : nn::AddSlice(builder, zeros, 0, left));
  }
  return nn::AddConcat(builder, parts);
}

// Returns `count` tokens of zeros, as wide as x.
ValueId ZeroTokens(nn::ProgramBuilder* builder, ValueId x, int64_t count) {
  ValueId zeros = nn::AddScale(builder, x, 0);
  while (builder->shape(zeros)[0] < count) zeros = nn::AddJoinTokens(builder, zeros, zeros);
  if (builder->shape(zeros)[0] == count) return zeros;
  return nn::AddSliceTokens(builder, zeros, 0, count);
}

}  // namespace

Sources Sd3Denoiser::embeddings() const {
  Sources sources = {{"context", {"text_encoder", "penultimate_hidden_state"}},
                     {"context_2", {"text_encoder_2", "penultimate_hidden_state"}},
                     {"pooled", {"text_encoder", "text_embeds"}},
                     {"pooled_2", {"text_encoder_2", "text_embeds"}}};
  if (text_.has_t5) sources["context_3"] = {"text_encoder_3", "last_hidden_state"};
  return sources;
}

absl::Status Sd3Denoiser::CheckShape(const MmditShape& shape) const {
  return CheckSd3Shape(config_, shape);
}

void Sd3Denoiser::AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                                MmditInputs* inputs) const {
  const auto input = [builder](const std::string& name, const Shape& shape) {
    return builder->AddInput(name, {shape, nn::Element::kCompute});
  };
  const ValueId first = input("context", Shape({text_.clip_length, text_.clip_widths[0]}));
  const ValueId second = input("context_2", Shape({text_.clip_length, text_.clip_widths[1]}));
  const ValueId pooled = input("pooled", Shape({text_.pooled_widths[0]}));
  const ValueId pooled_2 = input("pooled_2", Shape({text_.pooled_widths[1]}));
  std::optional<ValueId> t5;
  if (text_.has_t5) t5 = input("context_3", Shape({text_.t5_length, config_.context_width}));
  builder->BeginLayer("join_text", nn::LayerKind::kFrozen);
  const ValueId clip =
      PadChannels(builder, nn::AddConcat(builder, {first, second}), config_.context_width);
  if (!t5.has_value()) t5 = ZeroTokens(builder, clip, text_.t5_length);
  inputs->context = nn::AddJoinTokens(builder, clip, *t5);
  inputs->pooled = nn::AddConcat(builder, {pooled, pooled_2});
}

ValueId Sd3Denoiser::AddTransformer(const MmditShape& shape, nn::LayerKind kind,
                                    const MmditInputs& inputs, nn::ProgramBuilder* builder,
                                    const nn::LoraSpec& lora) const {
  return AddSd3Transformer(config_, shape, kind, inputs, builder, lora);
}

ComputedTensors Sd3Denoiser::computed_tensors() const {
  return {{kPositionTable, [config = config_] { return Sd3PositionTable(config, Device::Cpu()); }}};
}

// Original names: Stability AI's implementation, with dots replaced by underscores. Modulations
// without a gate have shift and scale in the other order there.
std::vector<KohyaLayer> Sd3Denoiser::kohya_layers() const {
  const int64_t width = config_.width(), hidden = 4 * width;
  std::vector<KohyaLayer> layers;
  const auto add = [&layers](const std::string& original,
                             const std::vector<KohyaLayer::Part>& parts,
                             bool swaps_halves = false) {
    layers.push_back({"lora_unet_" + original, parts, swaps_halves});
  };
  add("context_embedder", {{"context_embedder", width}});
  for (const auto& [original, here] : {std::make_pair("t_embedder", "timestep_embedder"),
                                       std::make_pair("y_embedder", "text_embedder")}) {
    const std::string layer = absl::StrCat("time_text_embed.", here);
    add(absl::StrCat(original, "_mlp_0"), {{layer + ".linear_1", width}});
    add(absl::StrCat(original, "_mlp_2"), {{layer + ".linear_2", width}});
  }
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string block = absl::StrCat("transformer_blocks.", i, ".");
    for (const bool is_image : {true, false}) {
      const OneStream& stream = is_image ? kImage : kText;
      const std::string original = absl::StrCat("joint_blocks_", i, "_", stream.original, "_");
      const bool is_read_only = !is_image && i + 1 == config_.num_layers;
      const bool is_dual = is_image && config_.dual_attention[i];
      const auto attention = [&](const char* there, const std::string& layer, const char* out) {
        add(absl::StrCat(original, there, "_qkv"),
            {{layer + stream.q, width}, {layer + stream.k, width}, {layer + stream.v, width}});
        if (out != nullptr) add(absl::StrCat(original, there, "_proj"), {{layer + out, width}});
      };
      attention("attn", block + "attn.", is_read_only ? nullptr : stream.out);
      if (is_dual) attention("attn2", block + "attn2.", stream.out);
      const int64_t vectors = is_read_only ? 2 : is_dual ? 9 : 6;
      add(original + "adaLN_modulation_1",
          {{absl::StrCat(block, stream.modulation, ".linear"), vectors * width}}, is_read_only);
      if (is_read_only) continue;
      add(original + "mlp_fc1", {{block + stream.feed_forward + ".net.0.proj", hidden}});
      add(original + "mlp_fc2", {{block + stream.feed_forward + ".net.2", width}});
    }
  }
  add("final_layer_adaLN_modulation_1", {{"norm_out.linear", 2 * width}}, /*swaps_halves=*/true);
  add("final_layer_linear", {{"proj_out", kMmditPatch * kMmditPatch * config_.out_channels}});
  return layers;
}

}  // namespace dpipe::models
