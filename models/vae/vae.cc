#include "models/vae/vae.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/resnet_block.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "models/vae/latent_nodes.h"

namespace dpipe::models {
namespace {

constexpr float kNormEps = 1e-6f;  // diffusers' Encoder and Decoder

// Builds the parts shared by encoder and decoder.
class VaeBuilder {
 public:
  VaeBuilder(const VaeConfig& config, nn::LayerKind kind, nn::ProgramBuilder* builder)
      : config_(config), kind_(kind), builder_(builder) {}

  void BeginLayer(const std::string& name) { builder_->BeginLayer(name, kind_); }

  ValueId Conv(const std::string& name, ValueId x, int64_t out) {
    return nn::AddConv2d(builder_, name, x, {out});
  }
  ValueId Conv1x1(const std::string& name, ValueId x, int64_t out) {
    nn::LinearSpec spec;
    spec.out = out;
    spec.conv1x1 = true;
    return nn::AddLinear(builder_, name, x, spec);
  }
  ValueId Norm(const std::string& name, ValueId x, bool silu) {
    return nn::AddGroupNorm(builder_, name, x,
                            {static_cast<int>(config_.norm_groups), kNormEps, silu});
  }

  ValueId Resnet(const std::string& name, ValueId x, int64_t out) {
    nn::ResnetSpec spec;
    spec.out_channels = out;
    spec.groups = static_cast<int>(config_.norm_groups);
    spec.eps = kNormEps;
    spec.kind = kind_;
    return nn::AddResnetBlock(builder_, name, x, spec);
  }

  // Single-head attention among all pixels.
  ValueId Attention(const std::string& name, ValueId x) {
    const Shape shape = builder_->shape(x);
    BeginLayer(name);
    nn::AttentionSpec spec;
    spec.qkv_bias = true;
    ValueId h = Norm(name + ".group_norm", x, /*silu=*/false);
    const Shape pixels({shape[0] * shape[1], shape[2]});
    h = nn::AddReshape(builder_, h, pixels);
    spec.addend = nn::AddReshape(builder_, x, pixels);
    h = nn::AddAttentionBlock(builder_, name, h, h, spec);
    return nn::AddReshape(builder_, h, shape);
  }

  ValueId Mid(const std::string& name, ValueId x) {
    const int64_t channels = config_.block_out_channels.back();
    x = Resnet(name + ".resnets.0", x, channels);
    x = Attention(name + ".attentions.0", x);
    return Resnet(name + ".resnets.1", x, channels);
  }

  ValueId NormSiluConv(const std::string& norm, const std::string& conv, ValueId x, int64_t out) {
    return Conv(conv, Norm(norm, x, /*silu=*/true), out);
  }

 private:
  const VaeConfig& config_;
  const nn::LayerKind kind_;
  nn::ProgramBuilder* const builder_;
};

absl::Status CheckSize(const VaeConfig& config, int64_t height, int64_t width) {
  const int64_t multiple = config.downscale();
  if (height > 0 && width > 0 && height % multiple == 0 && width % multiple == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("vae: images of ", height, " x ", width, "; ",
                                                 config.num_levels(), " levels need multiples of ",
                                                 multiple));
}

nn::ValueType Image(int64_t height, int64_t width, int64_t channels) {
  return {Shape({height, width, channels}), nn::Element::kF32};
}

}  // namespace

absl::StatusOr<nn::Program> BuildVaeEncoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind) {
  DPIPE_RETURN_IF_ERROR(CheckSize(config, height, width));
  nn::ProgramBuilder builder("vae_encoder");
  VaeBuilder vae(config, kind, &builder);
  const int64_t f = config.downscale();
  const ValueId pixels = builder.AddInput("pixels", Image(height, width, config.in_channels));
  const ValueId noise =
      builder.AddInput("vae_noise", Image(height / f, width / f, config.latent_channels));
  vae.BeginLayer("encoder.conv_in");
  ValueId x = nn::AddCast(&builder, pixels, nn::Element::kCompute);
  x = vae.Conv("encoder.conv_in", x, config.block_out_channels[0]);
  for (int level = 0; level < config.num_levels(); ++level) {
    const std::string block = absl::StrCat("encoder.down_blocks.", level);
    for (int i = 0; i < config.layers_per_block; ++i) {
      x = vae.Resnet(absl::StrCat(block, ".resnets.", i), x, config.block_out_channels[level]);
    }
    if (level + 1 == config.num_levels()) break;
    x = nn::AddDownsample(&builder, block + ".downsamplers.0.conv", x, /*asymmetric=*/true, kind);
  }
  x = vae.Mid("encoder.mid_block", x);
  vae.BeginLayer("encoder.conv_out");
  const int64_t moments = 2 * config.latent_channels;
  x = vae.NormSiluConv("encoder.conv_norm_out", "encoder.conv_out", x, moments);
  if (config.use_quant_conv) x = vae.Conv1x1("quant_conv", x, moments);
  x = AddLatentSample(&builder, x, noise, static_cast<float>(config.scaling_factor));
  x = AddLatentShift(&builder, x, static_cast<float>(-config.scaling_factor * config.shift_factor));
  builder.MarkOutput(x, "latents");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildVaeDecoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind) {
  DPIPE_RETURN_IF_ERROR(CheckSize(config, height, width));
  nn::ProgramBuilder builder("vae_decoder");
  VaeBuilder vae(config, kind, &builder);
  const int64_t f = config.downscale();
  ValueId x = builder.AddInput("latents", Image(height / f, width / f, config.latent_channels));
  vae.BeginLayer("decoder.conv_in");
  x = nn::AddScale(&builder, x, static_cast<float>(1 / config.scaling_factor));
  x = AddLatentShift(&builder, x, static_cast<float>(config.shift_factor));
  x = nn::AddCast(&builder, x, nn::Element::kCompute);
  if (config.use_post_quant_conv) x = vae.Conv1x1("post_quant_conv", x, config.latent_channels);
  x = vae.Conv("decoder.conv_in", x, config.block_out_channels.back());
  x = vae.Mid("decoder.mid_block", x);
  for (int level = config.num_levels() - 1; level >= 0; --level) {
    // Checkpoints number the decoder's blocks from the lowest resolution.
    const std::string block = absl::StrCat("decoder.up_blocks.", config.num_levels() - 1 - level);
    for (int i = 0; i <= config.layers_per_block; ++i) {
      x = vae.Resnet(absl::StrCat(block, ".resnets.", i), x, config.block_out_channels[level]);
    }
    if (level == 0) break;
    x = nn::AddUpsample(&builder, block + ".upsamplers.0.conv", x, kind);
  }
  vae.BeginLayer("decoder.conv_out");
  x = vae.NormSiluConv("decoder.conv_norm_out", "decoder.conv_out", x, config.out_channels);
  x = nn::AddCast(&builder, x, nn::Element::kF32);
  builder.MarkOutput(x, "pixels");
  return builder.Build();
}

}  // namespace dpipe::models
