#include "models/unet/unet.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/resnet_block.h"
#include "core/nn/blocks/sampling_blocks.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/conv2d_node.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/linear_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "models/diffusion/noise_nodes.h"

namespace dpipe::models {
namespace {

using nn::LayerKind;

// Adds everything between the noisy latents and the prediction.
class UNetBuilder {
 public:
  UNetBuilder(const UNetConfig& config, LayerKind kind, nn::ProgramBuilder* builder)
      : config_(config), kind_(kind), builder_(builder) {}

  ValueId Build(ValueId noisy, ValueId timesteps, ValueId context) {
    context_ = context;
    AddTime(timesteps);
    builder_->BeginLayer("conv_in", kind_);
    ValueId x = nn::AddConv2d(builder_, "conv_in", noisy, {config_.block_out_channels[0]});
    skips_ = {x};
    for (int level = 0; level < config_.num_levels(); ++level) x = AddDown(level, x);
    x = AddMid(x);
    for (int level = config_.num_levels() - 1; level >= 0; --level) x = AddUp(level, x);
    builder_->BeginLayer("conv_out", kind_);
    x = nn::AddGroupNorm(builder_, "conv_norm_out", x, Norm());
    return nn::AddConv2d(builder_, "conv_out", x, {config_.out_channels});
  }

 private:
  ops::GroupNormParams Norm() const {
    return {static_cast<int>(config_.norm_groups), static_cast<float>(config_.norm_eps),
            /*silu=*/true};
  }

  // The embedding goes through SiLU here, once, and not in every resnet: the same values.
  void AddTime(ValueId timesteps) {
    builder_->BeginLayer("time_embedding", kind_);
    ops::TimeEmbeddingParams params;
    params.dim = static_cast<int>(config_.block_out_channels[0]);
    params.cosine_first = config_.time_cosine_first;
    params.frequency_shift = config_.time_frequency_shift;
    ValueId t = nn::AddTimeEmbedding(builder_, timesteps, params);
    t = nn::AddLinear(builder_, "time_embedding.linear_1", t, {config_.time_width()});
    t = nn::AddActivation(builder_, t, ops::Activation::kSilu);
    t = nn::AddLinear(builder_, "time_embedding.linear_2", t, {config_.time_width()});
    time_ = nn::AddActivation(builder_, t, ops::Activation::kSilu);
  }

  ValueId Resnet(const std::string& name, int level, ValueId x, bool with_skip) {
    nn::ResnetSpec spec;
    spec.out_channels = config_.block_out_channels[level];
    spec.groups = static_cast<int>(config_.norm_groups);
    spec.eps = static_cast<float>(config_.norm_eps);
    spec.kind = kind_;
    spec.time = time_;
    if (with_skip) {
      spec.skip = skips_.back();
      skips_.pop_back();
    }
    return nn::AddResnetBlock(builder_, name, x, spec);
  }

  ValueId Transformer(const std::string& name, int level, ValueId x) {
    nn::TransformerSpec spec;
    spec.num_heads = static_cast<int>(config_.num_heads[level]);
    spec.num_blocks = static_cast<int>(config_.transformer_layers[level]);
    spec.groups = static_cast<int>(config_.norm_groups);
    spec.linear_projection = config_.linear_projection;
    spec.kind = kind_;
    return nn::AddTransformer(builder_, name, x, context_, spec);
  }

  ValueId AddDown(int level, ValueId x) {
    const std::string block = absl::StrCat("down_blocks.", level);
    for (int i = 0; i < config_.layers_per_block; ++i) {
      x = Resnet(absl::StrCat(block, ".resnets.", i), level, x, /*with_skip=*/false);
      if (config_.down_has_attention[level]) {
        x = Transformer(absl::StrCat(block, ".attentions.", i), level, x);
      }
      skips_.push_back(x);
    }
    if (level + 1 == config_.num_levels()) return x;
    x = nn::AddDownsample(builder_, block + ".downsamplers.0.conv", x, /*asymmetric=*/false, kind_);
    skips_.push_back(x);
    return x;
  }

  ValueId AddMid(ValueId x) {
    const int level = config_.num_levels() - 1;
    x = Resnet("mid_block.resnets.0", level, x, /*with_skip=*/false);
    x = Transformer("mid_block.attentions.0", level, x);
    return Resnet("mid_block.resnets.1", level, x, /*with_skip=*/false);
  }

  ValueId AddUp(int level, ValueId x) {
    // Checkpoints number up blocks from the lowest resolution.
    const std::string block = absl::StrCat("up_blocks.", config_.num_levels() - 1 - level);
    for (int i = 0; i <= config_.layers_per_block; ++i) {
      x = Resnet(absl::StrCat(block, ".resnets.", i), level, x, /*with_skip=*/true);
      if (config_.up_has_attention[level]) {
        x = Transformer(absl::StrCat(block, ".attentions.", i), level, x);
      }
    }
    if (level == 0) return x;
    return nn::AddUpsample(builder_, block + ".upsamplers.0.conv", x, kind_);
  }

  const UNetConfig& config_;
  const LayerKind kind_;
  nn::ProgramBuilder* const builder_;
  ValueId context_, time_;
  std::vector<ValueId> skips_;
};

absl::Status CheckShape(const UNetConfig& config, const UNetShape& shape) {
  const int64_t multiple = int64_t{1} << (config.num_levels() - 1);
  if (shape.height > 0 && shape.width > 0 && shape.height % multiple == 0 &&
      shape.width % multiple == 0 && shape.context_length > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unet: latents of ", shape.height, " x ", shape.width, " with ", shape.context_length,
      " tokens; ", config.num_levels(), " levels need multiples of ", multiple));
}

ValueId AddContext(const UNetConfig& config, const UNetShape& shape, nn::ProgramBuilder* builder) {
  return builder->AddInput("context", {Shape({shape.context_length, config.cross_attention_dim}),
                                       nn::Element::kCompute});
}

}  // namespace

absl::StatusOr<nn::Program> BuildUNetForTraining(const UNetConfig& config, const UNetShape& shape,
                                                 const UNetTraining& training) {
  DPIPE_RETURN_IF_ERROR(CheckShape(config, shape));
  if (config.in_channels != config.out_channels) {
    return absl::InvalidArgumentError(absl::StrCat("unet: ", config.in_channels,
                                                   " input channels and ", config.out_channels,
                                                   " output channels; training needs as many"));
  }
  nn::ProgramBuilder builder("unet");
  const nn::ValueType image{Shape({shape.height, shape.width, config.in_channels}),
                            nn::Element::kF32};
  const ValueId latents = builder.AddInput("latents", image);
  const ValueId noise = builder.AddInput("noise", image);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kI32});
  const ValueId context = AddContext(config, shape, &builder);
  builder.BeginLayer("add_noise", LayerKind::kFrozen);
  const ValueId noisy =
      diffusion::AddNoising(&builder, training.schedule, latents, noise, timesteps);
  const ValueId prediction =
      UNetBuilder(config, LayerKind::kTrainable, &builder).Build(noisy, timesteps, context);
  builder.BeginLayer("loss", LayerKind::kTrainable);
  const ValueId loss = diffusion::AddDiffusionLoss(
      &builder, training.schedule, training.min_snr_gamma, {prediction, latents, noise, timesteps});
  builder.MarkOutput(loss, "loss");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildUNetForInference(const UNetConfig& config,
                                                  const UNetShape& shape) {
  DPIPE_RETURN_IF_ERROR(CheckShape(config, shape));
  nn::ProgramBuilder builder("unet");
  const ValueId latents = builder.AddInput(
      "noisy_latents", {Shape({shape.height, shape.width, config.in_channels}), nn::Element::kF32});
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kI32});
  const ValueId context = AddContext(config, shape, &builder);
  builder.BeginLayer("input", LayerKind::kFrozen);
  const ValueId noisy = nn::AddCast(&builder, latents, nn::Element::kCompute);
  const ValueId prediction =
      UNetBuilder(config, LayerKind::kFrozen, &builder).Build(noisy, timesteps, context);
  builder.BeginLayer("output", LayerKind::kFrozen);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models
