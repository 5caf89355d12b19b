#include "models/controlnet/controlnet.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "models/diffusion/noise_nodes.h"
#include "models/unet/unet_parts.h"

namespace dpipe::models {
namespace {

using nn::LayerKind;

// The locked encoder's outputs: computed in the same program, or external inputs.
struct Locked {
  UNetParts::Encoded encoded;
  ValueId time;
};

struct Inputs {
  ValueId latents, noise, timesteps, context;
};

Inputs AddInputs(const UNetConfig& config, const UNetShape& shape, nn::ProgramBuilder* builder) {
  Inputs inputs;
  inputs.latents = AddLatentsInput(config, shape, "latents", builder);
  inputs.noise = AddLatentsInput(config, shape, "noise", builder);
  inputs.timesteps = builder->AddInput("timesteps", {Shape(), nn::Element::kI32});
  inputs.context = AddContextInput(config, shape, builder);
  return inputs;
}

ValueId AddConditionInput(const ControlNetConfig& config, const UNetShape& shape,
                          nn::ProgramBuilder* builder) {
  const int64_t scale = config.hint_downscale();
  return builder->AddInput(
      "condition",
      {Shape({scale * shape.height, scale * shape.width, config.conditioning_channels}),
       nn::Element::kF32});
}

// One convolution and SiLU per layer; the last one starts at zero and has no SiLU.
ValueId AddHintNetwork(const ControlNetConfig& config, ValueId condition, LayerKind kind,
                       nn::ProgramBuilder* builder) {
  auto convolution = [&](const std::string& name, ValueId x, int64_t channels, int stride) {
    nn::Conv2dSpec spec;
    spec.out_channels = channels;
    spec.params = ops::Conv2dSymmetric(stride, /*padding=*/1);
    return nn::AddActivation(builder, nn::AddConv2d(builder, name, x, spec),
                             ops::Activation::kSilu);
  };
  const std::string prefix = "controlnet_cond_embedding.";
  const std::vector<int64_t>& channels = config.hint_channels;
  builder->BeginLayer(prefix + "conv_in", kind);
  ValueId x = nn::AddCast(builder, condition, nn::Element::kCompute);
  x = convolution(prefix + "conv_in", x, channels[0], 1);
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    const std::string same = absl::StrCat(prefix, "blocks.", 2 * i);
    builder->BeginLayer(same, kind);
    x = convolution(same, x, channels[i], 1);
    const std::string down = absl::StrCat(prefix, "blocks.", 2 * i + 1);
    builder->BeginLayer(down, kind);
    x = convolution(down, x, channels[i + 1], 2);
  }
  builder->BeginLayer(prefix + "conv_out", kind);
  nn::Conv2dSpec last;
  last.out_channels = config.encoder.block_out_channels[0];
  last.zero_init = true;
  return nn::AddConv2d(builder, prefix + "conv_out", x, last);
}

// Adds a separate layer, whose result is added to `addend` if there is one.
ValueId AddZeroConvolution(const std::string& name, ValueId x, std::optional<ValueId> addend,
                           LayerKind kind, nn::ProgramBuilder* builder) {
  builder->BeginLayer(name, kind);
  nn::LinearSpec spec;
  spec.out = builder->shape(x)[-1];
  spec.conv1x1 = true;
  spec.zero_init = true;
  spec.addend = addend;
  return nn::AddLinear(builder, name, x, spec);
}

std::string SkipConvolution(size_t i) { return absl::StrCat("controlnet_down_blocks.", i); }
constexpr char kMiddleConvolution[] = "controlnet_mid_block";

// Replaces the locked encoder's outputs by their sums with the control. They are unchanged, bit for
// bit, while the convolutions are zero.
void AddControls(const UNetParts::Encoded& copy, LayerKind kind, nn::ProgramBuilder* builder,
                 UNetParts::Encoded* locked) {
  auto add = [&](const std::string& name, ValueId x, ValueId* value) {
    *value = AddZeroConvolution(name, x, *value, kind, builder);
  };
  for (size_t i = 0; i < copy.skips.size(); ++i) {
    add(SkipConvolution(i), copy.skips[i], &locked->skips[i]);
  }
  add(kMiddleConvolution, copy.middle, &locked->middle);
}

UNetParts::Encoded AddCopy(const ControlNetConfig& config, ValueId noisy, ValueId timesteps,
                           ValueId context, ValueId condition, LayerKind kind,
                           nn::ProgramBuilder* builder) {
  UNetParts copy(config.encoder, kind, /*prefix=*/"", builder);
  const ValueId time = copy.AddTime(timesteps);
  const ValueId hint = AddHintNetwork(config, condition, kind, builder);
  return copy.AddEncoder(noisy, time, context, hint);
}

// Adds external inputs with the types of the locked encoder's outputs.
Locked AddLockedInputs(const nn::Program& encoder, nn::ProgramBuilder* builder) {
  auto input = [&](const std::string& name) {
    return builder->AddInput(name, encoder.value(encoder.OutputNamed(name)).type);
  };
  Locked locked;
  locked.time = input("time");
  const int num_skips = static_cast<int>(encoder.outputs().size()) - 2;
  for (int i = 0; i < num_skips; ++i) {
    locked.encoded.skips.push_back(input(absl::StrCat("skip_", i)));
  }
  locked.encoded.middle = input("middle");
  return locked;
}

absl::Status CheckTrainable(const ControlNetConfig& config, const UNetConfig& unet) {
  DPIPE_RETURN_IF_ERROR(CheckFitsUNet(config, unet));
  if (unet.in_channels == unet.out_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("controlnet: the U-Net has ", unet.in_channels, " input channels and ",
                   unet.out_channels, " output channels; training needs the same number"));
}

}  // namespace

absl::StatusOr<nn::Program> BuildLockedEncoder(const UNetConfig& config, const UNetShape& shape,
                                               const diffusion::Objective& objective) {
  DPIPE_RETURN_IF_ERROR(CheckUNetShape(config, shape));
  nn::ProgramBuilder builder("locked_encoder");
  const Inputs in = AddInputs(config, shape, &builder);
  builder.BeginLayer("add_noise", LayerKind::kFrozen);
  const ValueId noisy = objective.AddNoising(&builder, in.latents, in.noise, in.timesteps);
  UNetParts parts(config, LayerKind::kFrozen, /*prefix=*/"", &builder);
  const ValueId time = parts.AddTime(in.timesteps);
  const UNetParts::Encoded encoded = parts.AddEncoder(noisy, time, in.context);
  builder.MarkOutput(time, "time");
  for (size_t i = 0; i < encoded.skips.size(); ++i) {
    builder.MarkOutput(encoded.skips[i], absl::StrCat("skip_", i));
  }
  builder.MarkOutput(encoded.middle, "middle");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildControlNetForTraining(const ControlNetConfig& config,
                                                       const UNetConfig& unet,
                                                       const UNetShape& shape,
                                                       const diffusion::Objective& objective) {
  DPIPE_RETURN_IF_ERROR(CheckTrainable(config, unet));
  DPIPE_ASSIGN_OR_RETURN(const nn::Program encoder, BuildLockedEncoder(unet, shape, objective));
  nn::ProgramBuilder builder("controlnet");
  const ValueId condition = AddConditionInput(config, shape, &builder);
  const Inputs in = AddInputs(unet, shape, &builder);
  Locked locked = AddLockedInputs(encoder, &builder);
  builder.BeginLayer("add_noise", LayerKind::kFrozen);
  const ValueId noisy = objective.AddNoising(&builder, in.latents, in.noise, in.timesteps);
  const UNetParts::Encoded copy =
      AddCopy(config, noisy, in.timesteps, in.context, condition, LayerKind::kTrainable, &builder);
  AddControls(copy, LayerKind::kTrainable, &builder, &locked.encoded);
  UNetParts decoder(unet, LayerKind::kFrozenWithGradient, kDecoderPrefix, &builder);
  const ValueId prediction = decoder.AddDecoder(std::move(locked.encoded), locked.time, in.context);
  builder.BeginLayer("loss", LayerKind::kFrozenWithGradient);
  const ValueId loss =
      objective.AddLoss(&builder, {prediction, in.latents, in.noise, in.timesteps});
  builder.MarkOutput(loss, "loss");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildControlNetAlone(const ControlNetConfig& config,
                                                 const UNetShape& shape) {
  DPIPE_RETURN_IF_ERROR(CheckUNetShape(config.encoder, shape));
  nn::ProgramBuilder builder("controlnet");
  const ValueId latents = AddLatentsInput(config.encoder, shape, "noisy_latents", &builder);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kI32});
  const ValueId context = AddContextInput(config.encoder, shape, &builder);
  const ValueId condition = AddConditionInput(config, shape, &builder);
  builder.BeginLayer("input", LayerKind::kFrozen);
  const ValueId noisy = nn::AddCast(&builder, latents, nn::Element::kCompute);
  const UNetParts::Encoded copy =
      AddCopy(config, noisy, timesteps, context, condition, LayerKind::kFrozen, &builder);
  auto add = [&](const std::string& name, ValueId x, const std::string& output) {
    const ValueId y = AddZeroConvolution(name, x, std::nullopt, LayerKind::kFrozen, &builder);
    builder.MarkOutput(y, output);
  };
  for (size_t i = 0; i < copy.skips.size(); ++i) {
    add(SkipConvolution(i), copy.skips[i], absl::StrCat("residual_", i));
  }
  add(kMiddleConvolution, copy.middle, "residual_middle");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildControlNetForInference(const ControlNetConfig& config,
                                                        const UNetConfig& unet,
                                                        const UNetShape& shape) {
  DPIPE_RETURN_IF_ERROR(CheckFitsUNet(config, unet));
  DPIPE_RETURN_IF_ERROR(CheckUNetShape(unet, shape));
  nn::ProgramBuilder builder("controlled_unet");
  const ValueId latents = AddLatentsInput(unet, shape, "noisy_latents", &builder);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kF32});
  const ValueId context = AddContextInput(unet, shape, &builder);
  const ValueId condition = AddConditionInput(config, shape, &builder);
  builder.BeginLayer("input", LayerKind::kFrozen);
  const ValueId noisy = nn::AddCast(&builder, latents, nn::Element::kCompute);
  UNetParts parts(unet, LayerKind::kFrozen, kDecoderPrefix, &builder);
  const ValueId time = parts.AddTime(timesteps);
  UNetParts::Encoded encoded = parts.AddEncoder(noisy, time, context);
  const UNetParts::Encoded copy =
      AddCopy(config, noisy, timesteps, context, condition, LayerKind::kFrozen, &builder);
  AddControls(copy, LayerKind::kFrozen, &builder, &encoded);
  const ValueId prediction = parts.AddDecoder(std::move(encoded), time, context);
  builder.BeginLayer("output", LayerKind::kFrozen);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models
