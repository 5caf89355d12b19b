#include "models/mmdit/flux_transformer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<FluxTransformerConfig> ParseFluxTransformerConfig(const std::string& json,
                                                                 const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "FluxTransformer2DModel"));
  FluxTransformerConfig flux;
  flux.in_channels = config.PositiveInt("in_channels", 64);
  flux.num_layers = config.PositiveInt("num_layers", 19);
  flux.num_single_layers = config.PositiveInt("num_single_layers", 38);
  flux.head_size = config.PositiveInt("attention_head_dim", 128);
  flux.num_heads = config.PositiveInt("num_attention_heads", 24);
  flux.context_width = config.PositiveInt("joint_attention_dim", 4096);
  flux.pooled_width = config.PositiveInt("pooled_projection_dim", 768);
  flux.guidance_embeds = config.Bool("guidance_embeds", false);
  const std::vector<int64_t> axes = config.PositiveInts("axes_dims_rope", {16, 56, 56});
  int64_t sum = 0;
  bool even = true;
  for (int64_t axis : axes) {
    sum += axis;
    even = even && axis % 2 == 0;
  }
  if (axes.size() == flux.axes_dims_rope.size() && even && sum == flux.head_size) {
    std::copy(axes.begin(), axes.end(), flux.axes_dims_rope.begin());
  } else {
    config.AddProblem("axes_dims_rope",
                      absl::StrCat("expected three even numbers with the sum ", flux.head_size,
                                   ", the value of 'attention_head_dim'"));
  }
  config.Expect("patch_size", {"1"});
  if (flux.in_channels % 4 != 0) {
    config.AddProblem("in_channels", "expected a multiple of 4: a token is 2 x 2 latents");
  }
  if (config.PositiveInt("out_channels", flux.in_channels) != flux.in_channels) {
    config.AddProblem("out_channels",
                      absl::StrCat("expected 'in_channels', ", flux.in_channels,
                                   "; models with further inputs (Fill, Canny, Depth) are not "
                                   "supported"));
  }
  DPIPE_RETURN_IF_ERROR(config.status());
  return flux;
}

absl::StatusOr<FluxTransformerConfig> ReadFluxTransformerConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseFluxTransformerConfig(text, path);
}

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
