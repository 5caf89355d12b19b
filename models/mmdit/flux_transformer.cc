#include "models/mmdit/flux_transformer.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::models {

ValueId AddFluxTransformer(const FluxTransformerConfig& config, const MmditShape& shape,
                           nn::LayerKind kind, const MmditInputs& inputs,
                           nn::ProgramBuilder* builder, const nn::LoraSpec& lora) {
  DPIPE_CHECK_EQ(inputs.guidance.has_value(), config.guidance_embeds);
  MmditParts::Options options;
  options.num_heads = config.num_heads;
  options.head_size = config.head_size;
  options.qk_norm = true;
  options.kind = kind;
  options.lora = lora;
  options.rotary.emplace();
  options.rotary->axes = config.axes_dims_rope;
  options.rotary->image_columns = shape.token_columns();
  MmditParts parts(options, builder);
  MmditTokens tokens;
  parts.BeginLayer("x_embedder");
  tokens.image = parts.AddLinear(
      "x_embedder",
      nn::AddPatchify(builder, nn::AddCast(builder, inputs.latents, nn::Element::kCompute),
                      ops::PatchOrder::kChannelFirst, kMmditPatch),
      {config.width()});
  const ValueId conditioning = parts.AddConditioning(inputs);
  tokens.text = parts.AddContext(inputs.context);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    tokens = parts.AddJointBlock(absl::StrCat("transformer_blocks.", i), tokens, conditioning, {});
  }
  ValueId joined = nn::AddJoinTokens(builder, tokens.text, tokens.image);
  for (int64_t i = 0; i < config.num_single_layers; ++i) {
    joined = parts.AddSingleBlock(absl::StrCat("single_transformer_blocks.", i), joined,
                                  shape.context_length, conditioning);
  }
  parts.BeginLayer("proj_out");
  const ValueId image = nn::AddSliceTokens(builder, joined, shape.context_length,
                                           shape.token_rows() * shape.token_columns());
  return nn::AddUnpatchify(builder, parts.AddOutput(image, conditioning, config.in_channels),
                           ops::PatchOrder::kChannelFirst, kMmditPatch, shape.height, shape.width);
}

MmditInputSizes FluxInputSizes(const FluxTransformerConfig& config) {
  return {config.latent_channels(), config.context_width, config.pooled_width,
          config.guidance_embeds};
}

absl::StatusOr<nn::Program> BuildFluxTransformer(const FluxTransformerConfig& config,
                                                 const MmditShape& shape, nn::LayerKind kind,
                                                 const nn::LoraSpec& lora) {
  DPIPE_RETURN_IF_ERROR(CheckMmditShape("transformer", shape));
  nn::ProgramBuilder builder("transformer");
  const MmditInputs inputs = AddMmditInputs(shape, FluxInputSizes(config), &builder);
  const ValueId prediction = AddFluxTransformer(config, shape, kind, inputs, &builder, lora);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models
