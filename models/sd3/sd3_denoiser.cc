#include "models/sd3/sd3_denoiser.h"

#include <optional>
#include <string>

#include "core/nn/nodes/shape_nodes.h"
#include "models/mmdit/original_names.h"
#include "models/mmdit/sd3_transformer.h"

namespace dpipe::models {
namespace {

constexpr char kPositionTable[] = "pos_embed.pos_embed";

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

std::vector<KohyaLayer> Sd3Denoiser::kohya_layers() const {
  return KohyaLayersOf(Sd3OriginalNames(config_));
}

}  // namespace dpipe::models
