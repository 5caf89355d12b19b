#include "models/mmdit/sd3_transformer.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<Sd3TransformerConfig> ParseSd3TransformerConfig(const std::string& json,
                                                               const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "SD3Transformer2DModel"));
  Sd3TransformerConfig sd3;
  sd3.sample_size = config.PositiveInt("sample_size", 128);
  sd3.in_channels = config.PositiveInt("in_channels", 16);
  sd3.out_channels =
      config.PositiveInt("out_channels", config.IsNull("out_channels") ? sd3.in_channels : 16);
  sd3.num_layers = config.PositiveInt("num_layers", 18);
  sd3.head_size = config.PositiveInt("attention_head_dim", 64);
  sd3.num_heads = config.PositiveInt("num_attention_heads", 18);
  sd3.context_width = config.PositiveInt("joint_attention_dim", 4096);
  sd3.pooled_width = config.PositiveInt("pooled_projection_dim", 2048);
  sd3.pos_embed_max_size = config.PositiveInt("pos_embed_max_size", 96);
  sd3.dual_attention = config.Indices("dual_attention_layers", sd3.num_layers);
  sd3.qk_norm = !config.String("qk_norm", "").empty();
  config.Expect("qk_norm", {"null", "\"rms_norm\""});
  config.Expect("patch_size", {"2"});
  // The text tokens enter the blocks as context_embedder returns them.
  if (config.PositiveInt("caption_projection_dim", 1152) != sd3.width()) {
    config.AddProblem(
        "caption_projection_dim",
        absl::StrCat("expected ", sd3.width(), ", ", sd3.num_heads, " heads of ", sd3.head_size));
  }
  if (sd3.width() % 4 != 0) {
    config.AddProblem("attention_head_dim", absl::StrCat("which makes a width of ", sd3.width(),
                                                         "; positions need a multiple of 4"));
  }
  if (sd3.sample_size < 2) config.AddProblem("sample_size", "expected at least 2");
  DPIPE_RETURN_IF_ERROR(config.status());
  return sd3;
}

absl::StatusOr<Sd3TransformerConfig> ReadSd3TransformerConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseSd3TransformerConfig(text, path);
}

namespace {

ops::PositionTableParams Positions(const Sd3TransformerConfig& config, int64_t rows,
                                   int64_t columns) {
  return {rows, columns, config.pos_embed_max_size, config.sample_size / kMmditPatch};
}

// Latents [height, width, C] -> tokens [T, width].
ValueId AddTokens(const Sd3TransformerConfig& config, const MmditShape& shape, ValueId latents,
                  nn::ProgramBuilder* builder) {
  nn::Conv2dSpec projection;
  projection.out_channels = config.width();
  projection.kernel = kMmditPatch;
  projection.params = ops::Conv2dSymmetric(/*stride=*/kMmditPatch, /*padding=*/0);
  const ValueId x = nn::AddConv2d(builder, "pos_embed.proj",
                                  nn::AddCast(builder, latents, nn::Element::kCompute), projection);
  const int64_t rows = shape.token_rows(), columns = shape.token_columns();
  return nn::AddPositionTable(builder,
                              nn::AddReshape(builder, x, Shape({rows * columns, config.width()})),
                              Positions(config, rows, columns));
}

}  // namespace

absl::Status CheckSd3Shape(const Sd3TransformerConfig& config, const MmditShape& shape) {
  DPIPE_RETURN_IF_ERROR(CheckMmditShape("transformer", shape));
  const int64_t max = config.pos_embed_max_size * kMmditPatch;
  if (shape.height <= max && shape.width <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("transformer: latents of ", shape.height, " x ",
                                                 shape.width, ", but it has positions for at most ",
                                                 max, " x ", max));
}

ValueId AddSd3Transformer(const Sd3TransformerConfig& config, const MmditShape& shape,
                          nn::LayerKind kind, const MmditInputs& inputs,
                          nn::ProgramBuilder* builder, const nn::LoraSpec& lora) {
  MmditParts::Options options;
  options.num_heads = config.num_heads;
  options.head_size = config.head_size;
  options.qk_norm = config.qk_norm;
  options.kind = kind;
  options.lora = lora;
  MmditParts parts(options, builder);
  parts.BeginLayer("pos_embed");
  MmditTokens tokens;
  tokens.image = AddTokens(config, shape, inputs.latents, builder);
  const ValueId conditioning = parts.AddConditioning(inputs);
  tokens.text = parts.AddContext(inputs.context);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    JointBlockSpec spec;
    spec.dual_attention = config.dual_attention[i];
    spec.context_pre_only = i + 1 == config.num_layers;
    tokens =
        parts.AddJointBlock(absl::StrCat("transformer_blocks.", i), tokens, conditioning, spec);
  }
  parts.BeginLayer("proj_out");
  const ValueId patches =
      parts.AddOutput(tokens.image, conditioning, kMmditPatch * kMmditPatch * config.out_channels);
  return nn::AddUnpatchify(builder, patches, ops::PatchOrder::kPixelFirst, kMmditPatch,
                           shape.height, shape.width);
}

absl::StatusOr<nn::Program> BuildSd3Transformer(const Sd3TransformerConfig& config,
                                                const MmditShape& shape, nn::LayerKind kind,
                                                const nn::LoraSpec& lora) {
  DPIPE_RETURN_IF_ERROR(CheckSd3Shape(config, shape));
  nn::ProgramBuilder builder("transformer");
  const MmditInputs inputs = AddMmditInputs(
      shape, {config.in_channels, config.context_width, config.pooled_width}, &builder);
  const ValueId prediction = AddSd3Transformer(config, shape, kind, inputs, &builder, lora);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

absl::StatusOr<Tensor> Sd3PositionTable(const Sd3TransformerConfig& config,
                                        const std::shared_ptr<Device>& device) {
  const int64_t side = config.pos_embed_max_size;
  return ops::AddPositionTable(
      Positions(config, side, side),
      Tensor::Zeros(device, Shape({1, side * side, config.width()}), DType::kF32));
}

}  // namespace dpipe::models
