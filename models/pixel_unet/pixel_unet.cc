#include "models/pixel_unet/pixel_unet.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/resnet_block.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "models/diffusion/noise_nodes.h"

namespace dpipe::models {
namespace {

using nn::LayerKind;

// Inputs that condition the U-Net, other than images.
struct Conditions {
  ValueId timesteps;
  std::optional<ValueId> labels, noise_levels;
};

// Adds the layers from the joined input channels to the prediction.
class PixelUNetBuilder {
 public:
  PixelUNetBuilder(const PixelUNetConfig& config, const std::string& prefix, LayerKind kind,
                   nn::ProgramBuilder* builder)
      : config_(config), prefix_(prefix), kind_(kind), builder_(builder) {}

  ValueId Build(ValueId input, const Conditions& conditions) {
    AddTime(conditions);
    BeginLayer("conv_in");
    ValueId x = nn::AddConv2d(builder_, Name("conv_in"), input, {config_.block_out_channels[0]});
    skips_ = {x};
    for (int level = 0; level < config_.num_levels(); ++level) x = AddDown(level, x);
    x = AddMid(x);
    for (int level = config_.num_levels() - 1; level >= 0; --level) x = AddUp(level, x);
    BeginLayer("conv_out");
    x = nn::AddGroupNorm(builder_, Name("conv_norm_out"), x, Norm(config_.norm_groups, true));
    return nn::AddConv2d(builder_, Name("conv_out"), x, {config_.out_channels});
  }

 private:
  std::string Name(const std::string& name) const { return prefix_ + name; }
  void BeginLayer(const std::string& name) { builder_->BeginLayer(Name(name), kind_); }
  ops::GroupNormParams Norm(int64_t groups, bool silu) const {
    return {static_cast<int>(groups), static_cast<float>(config_.norm_eps), silu};
  }

  // Embeds a number: sinusoids, then two linear layers.
  ValueId NumberEmbedding(const std::string& name, ValueId number) {
    ops::TimeEmbeddingParams params;
    params.dim = static_cast<int>(config_.block_out_channels[0]);
    params.cosine_first = config_.time_cosine_first;
    params.frequency_shift = config_.time_frequency_shift;
    ValueId t = nn::AddTimeEmbedding(builder_, number, params);
    t = nn::AddLinear(builder_, Name(name + ".linear_1"), t, {config_.time_width()});
    t = nn::AddActivation(builder_, t, ops::Activation::kSilu);
    return nn::AddLinear(builder_, Name(name + ".linear_2"), t, {config_.time_width()});
  }

  // Applies the embedding's SiLU once, not in every residual block, with the same values.
  void AddTime(const Conditions& conditions) {
    BeginLayer("time_embedding");
    ValueId t = NumberEmbedding("time_embedding", conditions.timesteps);
    if (conditions.labels.has_value()) {
      t = nn::AddSum(builder_, t,
                     nn::AddLabelEmbedding(builder_, Name("class_embedding"), *conditions.labels,
                                           config_.num_class_embeds, config_.time_width()));
    }
    if (conditions.noise_levels.has_value()) {
      t = nn::AddSum(builder_, t, NumberEmbedding("class_embedding", *conditions.noise_levels));
    }
    time_ = nn::AddActivation(builder_, t, ops::Activation::kSilu);
  }

  ValueId Resnet(const std::string& name, int level, ValueId x, bool with_skip,
                 nn::Resample resample = nn::Resample::kNone) {
    nn::ResnetSpec spec;
    spec.out_channels = config_.block_out_channels[level];
    spec.groups = static_cast<int>(config_.norm_groups);
    spec.eps = static_cast<float>(config_.norm_eps);
    spec.kind = kind_;
    spec.time = time_;
    spec.scale_shift = config_.scale_shift;
    spec.resample = resample;
    if (with_skip) {
      spec.skip = skips_.back();
      skips_.pop_back();
    }
    return nn::AddResnetBlock(builder_, Name(name), x, spec);
  }

  // Self-attention among all pixels, with a residual connection.
  ValueId Attention(const std::string& name, int64_t norm_groups, ValueId x) {
    const Shape shape = builder_->shape(x);
    BeginLayer(name);
    nn::AttentionSpec spec;
    spec.qkv_bias = true;
    if (config_.head_channels > 0) {
      spec.num_heads = static_cast<int>(shape[2] / config_.head_channels);
    }
    ValueId h = x;
    if (norm_groups > 0) {
      h = nn::AddGroupNorm(builder_, Name(name + ".group_norm"), h, Norm(norm_groups, false));
    }
    const Shape pixels({shape[0] * shape[1], shape[2]});
    h = nn::AddReshape(builder_, h, pixels);
    spec.addend = nn::AddReshape(builder_, x, pixels);
    h = nn::AddAttentionBlock(builder_, Name(name), h, h, spec);
    return nn::AddReshape(builder_, h, shape);
  }

  ValueId AddDown(int level, ValueId x) {
    const std::string block = absl::StrCat("down_blocks.", level);
    for (int i = 0; i < config_.layers_per_block; ++i) {
      x = Resnet(absl::StrCat(block, ".resnets.", i), level, x, /*with_skip=*/false);
      if (config_.down[level].attention) {
        x = Attention(absl::StrCat(block, ".attentions.", i), config_.norm_groups, x);
      }
      skips_.push_back(x);
    }
    if (level + 1 == config_.num_levels()) return x;
    const std::string resize = block + ".downsamplers.0";
    x = config_.down[level].resnet_resize
            ? Resnet(resize, level, x, /*with_skip=*/false, nn::Resample::kDown)
            : nn::AddDownsample(builder_, Name(resize + ".conv"), x, /*asymmetric=*/false, kind_);
    skips_.push_back(x);
    return x;
  }

  ValueId AddMid(ValueId x) {
    const int level = config_.num_levels() - 1;
    x = Resnet("mid_block.resnets.0", level, x, /*with_skip=*/false);
    if (config_.mid_attention) {
      x = Attention("mid_block.attentions.0", config_.mid_norm_groups, x);
    }
    return Resnet("mid_block.resnets.1", level, x, /*with_skip=*/false);
  }

  ValueId AddUp(int level, ValueId x) {
    // Checkpoints number up blocks from the lowest resolution.
    const std::string block = absl::StrCat("up_blocks.", config_.num_levels() - 1 - level);
    for (int i = 0; i <= config_.layers_per_block; ++i) {
      x = Resnet(absl::StrCat(block, ".resnets.", i), level, x, /*with_skip=*/true);
      if (config_.up[level].attention) {
        x = Attention(absl::StrCat(block, ".attentions.", i), config_.norm_groups, x);
      }
    }
    if (level == 0) return x;
    const std::string resize = block + ".upsamplers.0";
    return config_.up[level].resnet_resize
               ? Resnet(resize, level, x, /*with_skip=*/false, nn::Resample::kUp)
               : nn::AddUpsample(builder_, Name(resize + ".conv"), x, kind_);
  }

  const PixelUNetConfig& config_;
  const std::string prefix_;
  const LayerKind kind_;
  nn::ProgramBuilder* const builder_;
  ValueId time_;
  std::vector<ValueId> skips_;
};

absl::Status Check(const PixelUNetConfig& config, const PixelUNetOptions& options) {
  const int64_t multiple = int64_t{1} << (config.num_levels() - 1);
  if (options.height <= 0 || options.width <= 0 || options.height % multiple != 0 ||
      options.width % multiple != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.prefix, "pixel U-Net: images of ", options.height, " x ", options.width, "; ",
        config.num_levels(), " levels need multiples of ", multiple));
  }
  const int pictures = 1 + options.has_low_resolution() + options.self_conditioning;
  if (config.in_channels != pictures * config.out_channels) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.prefix, "pixel U-Net: ", config.in_channels, " input channels; ", pictures,
        " pictures of ", config.out_channels, " channels need ", pictures * config.out_channels));
  }
  if (options.has_low_resolution() != config.noise_level_embed) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.prefix, "pixel U-Net: it is given ", options.has_low_resolution() ? "a" : "no",
        " picture of lower resolution, and has ", config.noise_level_embed ? "an" : "no",
        " embedding for its noise level (class_embed_type \"timestep\")"));
  }
  return absl::OkStatus();
}

// Adds the external inputs of both programs on demand.
class Inputs {
 public:
  Inputs(const PixelUNetConfig& config, const PixelUNetOptions& options,
         nn::ProgramBuilder* builder)
      : config_(config), options_(options), builder_(builder) {}

  ValueId Picture(const std::string& name, nn::Element element = nn::Element::kF32) {
    return builder_->AddInput(
        name, {Shape({options_.height, options_.width, config_.out_channels}), element});
  }
  ValueId LowPicture(const std::string& name) {
    return builder_->AddInput(
        name, {Shape({options_.low_height, options_.low_width, config_.out_channels}),
               nn::Element::kF32});
  }
  ValueId Number(const std::string& name, nn::Element element = nn::Element::kI32) {
    return builder_->AddInput(name, {Shape(), element});
  }
  // `timesteps` is floating point for sampling, because samplers also visit fractional timesteps.
  Conditions AddConditions(nn::Element timesteps) {
    Conditions conditions;
    conditions.timesteps = Number("timesteps", timesteps);
    if (config_.num_class_embeds > 0) conditions.labels = Number("labels");
    if (options_.has_low_resolution()) conditions.noise_levels = Number("noise_levels");
    return conditions;
  }
  // Joins the noisy image, the enlarged low-resolution picture and the estimate.
  ValueId Join(ValueId noisy, std::optional<ValueId> low_resolution) {
    std::vector<ValueId> parts = {noisy};
    if (low_resolution.has_value()) {
      parts.push_back(
          nn::AddResizeBilinear(builder_, *low_resolution, options_.height, options_.width));
    }
    if (options_.self_conditioning) {
      parts.push_back(Picture("estimate", nn::Element::kCompute));
    }
    return parts.size() == 1 ? noisy : nn::AddConcat(builder_, parts);
  }

 private:
  const PixelUNetConfig& config_;
  const PixelUNetOptions& options_;
  nn::ProgramBuilder* const builder_;
};

}  // namespace

absl::StatusOr<nn::Program> BuildPixelUNetForTraining(const PixelUNetConfig& config,
                                                      const PixelUNetOptions& options,
                                                      const PixelUNetTraining& training) {
  DPIPE_RETURN_IF_ERROR(Check(config, options));
  nn::ProgramBuilder builder(options.prefix + "pixel_unet");
  Inputs inputs(config, options, &builder);
  const ValueId pixels = inputs.Picture("pixels"), noise = inputs.Picture("noise");
  const Conditions conditions = inputs.AddConditions(nn::Element::kI32);
  std::optional<ValueId> low, low_noise;
  if (options.has_low_resolution()) {
    low = inputs.LowPicture("low_resolution");
    low_noise = inputs.LowPicture("low_noise");
  }
  builder.BeginLayer(options.prefix + "add_noise", LayerKind::kFrozen);
  const ValueId noisy =
      diffusion::AddNoising(&builder, training.schedule, pixels, noise, conditions.timesteps);
  if (low.has_value()) {
    low = diffusion::AddNoising(&builder, training.low_schedule, *low, *low_noise,
                                *conditions.noise_levels);
  }
  const ValueId input = inputs.Join(noisy, low);
  const ValueId prediction =
      PixelUNetBuilder(config, options.prefix, LayerKind::kTrainable, &builder)
          .Build(input, conditions);
  if (options.self_conditioning) {
    builder.MarkOutput(nn::AddDetach(&builder, prediction), "prediction");
  }
  builder.BeginLayer(options.prefix + "loss", LayerKind::kTrainable);
  const ValueId loss =
      diffusion::AddDiffusionLoss(&builder, training.schedule, training.min_snr_gamma,
                                  {prediction, pixels, noise, conditions.timesteps});
  builder.MarkOutput(loss, "loss");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildPixelUNetForInference(const PixelUNetConfig& config,
                                                       const PixelUNetOptions& options) {
  DPIPE_RETURN_IF_ERROR(Check(config, options));
  nn::ProgramBuilder builder(options.prefix + "pixel_unet");
  Inputs inputs(config, options, &builder);
  ValueId noisy = inputs.Picture("noisy_pixels");
  const Conditions conditions = inputs.AddConditions(nn::Element::kF32);
  std::optional<ValueId> low;
  if (options.has_low_resolution()) low = inputs.LowPicture("low_resolution");
  builder.BeginLayer(options.prefix + "input", LayerKind::kFrozen);
  noisy = nn::AddCast(&builder, noisy, nn::Element::kCompute);
  if (low.has_value()) low = nn::AddCast(&builder, *low, nn::Element::kCompute);
  const ValueId input = inputs.Join(noisy, low);
  const ValueId prediction = PixelUNetBuilder(config, options.prefix, LayerKind::kFrozen, &builder)
                                 .Build(input, conditions);
  builder.BeginLayer(options.prefix + "output", LayerKind::kFrozen);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models
