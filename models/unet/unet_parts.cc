#include "models/unet/unet_parts.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/resnet_block.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::models {
namespace {

ValueId PopBack(std::vector<ValueId>* values) {
  const ValueId last = values->back();
  values->pop_back();
  return last;
}

}  // namespace

absl::Status CheckUNetShape(const UNetConfig& config, const UNetShape& shape) {
  const int64_t joined =
      std::accumulate(shape.context_widths.begin(), shape.context_widths.end(), int64_t{0});
  if (joined > 0 && joined != config.cross_attention_dim) {
    return absl::InvalidArgumentError(absl::StrCat("unet: the text encoders' states have ", joined,
                                                   " channels, but cross_attention_dim is ",
                                                   config.cross_attention_dim));
  }
  const int64_t multiple = int64_t{1} << (config.num_levels() - 1);
  if (shape.height > 0 && shape.width > 0 && shape.height % multiple == 0 &&
      shape.width % multiple == 0 && shape.context_length > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unet: latents of ", shape.height, " x ", shape.width, " with ", shape.context_length,
      " tokens; ", config.num_levels(), " levels need multiples of ", multiple));
}

ValueId UNetParts::AddTime(ValueId timesteps, const std::optional<TextTime>& text_time) {
  const std::string name = prefix_ + "time_embedding";
  builder_->BeginLayer(name, kind_);
  ops::TimeEmbeddingParams params;
  params.dim = static_cast<int>(config_.block_out_channels[0]);
  params.cosine_first = config_.time_cosine_first;
  params.frequency_shift = config_.time_frequency_shift;
  ValueId t = nn::AddTimeEmbedding(builder_, timesteps, params);
  t = nn::AddLinear(builder_, name + ".linear_1", t, {config_.time_width()});
  t = nn::AddActivation(builder_, t, ops::Activation::kSilu);
  t = nn::AddLinear(builder_, name + ".linear_2", t, {config_.time_width()});
  if (text_time.has_value()) {
    const std::string added = prefix_ + "add_embedding";
    params.dim = static_cast<int>(config_.time_id_width);
    ValueId a = nn::AddConcat(
        builder_, {text_time->pooled, nn::AddTimeEmbedding(builder_, text_time->time_ids, params)});
    a = nn::AddLinear(builder_, added + ".linear_1", a, {config_.time_width()});
    a = nn::AddActivation(builder_, a, ops::Activation::kSilu);
    nn::LinearSpec second{config_.time_width()};
    second.addend = t;
    t = nn::AddLinear(builder_, added + ".linear_2", a, second);
  }
  return nn::AddActivation(builder_, t, ops::Activation::kSilu);
}

UNetParts::Encoded UNetParts::AddEncoder(ValueId noisy, ValueId time, ValueId context,
                                         std::optional<ValueId> hint) {
  builder_->BeginLayer(prefix_ + "conv_in", kind_);
  nn::Conv2dSpec conv_in{config_.block_out_channels[0]};
  conv_in.addend = hint;
  ValueId x = nn::AddConv2d(builder_, prefix_ + "conv_in", noisy, conv_in);
  Encoded encoded;
  encoded.skips = {x};
  for (int level = 0; level < config_.num_levels(); ++level) {
    x = AddDown(level, x, time, context, &encoded.skips);
  }
  const int last = config_.num_levels() - 1;
  const std::string block = prefix_ + "mid_block";
  x = AddResnet(block + ".resnets.0", last, x, time, std::nullopt);
  x = AddTransformer(block + ".attentions.0", last, x, context);
  encoded.middle = AddResnet(block + ".resnets.1", last, x, time, std::nullopt);
  return encoded;
}

ValueId UNetParts::AddDecoder(Encoded encoded, ValueId time, ValueId context) {
  ValueId x = encoded.middle;
  for (int level = config_.num_levels() - 1; level >= 0; --level) {
    x = AddUp(level, x, time, context, &encoded.skips);
  }
  builder_->BeginLayer(prefix_ + "conv_out", kind_);
  const ops::GroupNormParams norm{static_cast<int>(config_.norm_groups),
                                  static_cast<float>(config_.norm_eps), /*silu=*/true};
  x = nn::AddGroupNorm(builder_, prefix_ + "conv_norm_out", x, norm);
  return nn::AddConv2d(builder_, prefix_ + "conv_out", x, {config_.out_channels});
}

ValueId UNetParts::AddResnet(const std::string& name, int level, ValueId x, ValueId time,
                             std::optional<ValueId> skip) {
  nn::ResnetSpec spec;
  spec.out_channels = config_.block_out_channels[level];
  spec.groups = static_cast<int>(config_.norm_groups);
  spec.eps = static_cast<float>(config_.norm_eps);
  spec.kind = kind_;
  spec.time = time;
  spec.skip = skip;
  return nn::AddResnetBlock(builder_, name, x, spec);
}

ValueId UNetParts::AddTransformer(const std::string& name, int level, ValueId x, ValueId context) {
  nn::TransformerSpec spec;
  spec.num_heads = static_cast<int>(config_.num_heads[level]);
  spec.num_blocks = static_cast<int>(config_.transformer_layers[level]);
  spec.groups = static_cast<int>(config_.norm_groups);
  spec.linear_projection = config_.linear_projection;
  spec.kind = kind_;
  spec.lora = lora_;
  return nn::AddTransformer(builder_, name, x, context, spec);
}

ValueId UNetParts::AddDown(int level, ValueId x, ValueId time, ValueId context,
                           std::vector<ValueId>* skips) {
  const std::string block = absl::StrCat(prefix_, "down_blocks.", level);
  for (int i = 0; i < config_.layers_per_block; ++i) {
    x = AddResnet(absl::StrCat(block, ".resnets.", i), level, x, time, std::nullopt);
    if (config_.down_has_attention[level]) {
      x = AddTransformer(absl::StrCat(block, ".attentions.", i), level, x, context);
    }
    skips->push_back(x);
  }
  if (level + 1 == config_.num_levels()) return x;
  x = nn::AddDownsample(builder_, block + ".downsamplers.0.conv", x, /*asymmetric=*/false, kind_);
  skips->push_back(x);
  return x;
}

ValueId UNetParts::AddUp(int level, ValueId x, ValueId time, ValueId context,
                         std::vector<ValueId>* skips) {
  // Checkpoints number up blocks from the lowest resolution.
  const std::string block = absl::StrCat(prefix_, "up_blocks.", config_.num_levels() - 1 - level);
  for (int i = 0; i <= config_.layers_per_block; ++i) {
    x = AddResnet(absl::StrCat(block, ".resnets.", i), level, x, time, PopBack(skips));
    if (config_.up_has_attention[level]) {
      x = AddTransformer(absl::StrCat(block, ".attentions.", i), level, x, context);
    }
  }
  if (level == 0) return x;
  return nn::AddUpsample(builder_, block + ".upsamplers.0.conv", x, kind_);
}

ValueId AddContextInput(const UNetConfig& config, const UNetShape& shape,
                        nn::ProgramBuilder* builder) {
  return builder->AddInput("context", {Shape({shape.context_length, config.cross_attention_dim}),
                                       nn::Element::kCompute});
}

std::optional<TextTime> AddTextTimeInputs(const UNetConfig& config, nn::ProgramBuilder* builder) {
  if (!config.has_text_time()) return std::nullopt;
  TextTime inputs;
  inputs.pooled =
      builder->AddInput("pooled", {Shape({config.pooled_width}), nn::Element::kCompute});
  inputs.time_ids = builder->AddInput("time_ids", {Shape({kNumTimeIds}), nn::Element::kF32});
  return inputs;
}

ValueId AddLatentsInput(const UNetConfig& config, const UNetShape& shape, const std::string& name,
                        nn::ProgramBuilder* builder) {
  return builder->AddInput(
      name, {Shape({shape.height, shape.width, config.latent_channels()}), nn::Element::kF32});
}

}  // namespace dpipe::models
