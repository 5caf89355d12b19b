#include "core/nn/blocks/transformer_block.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {

ValueId AddAttentionBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                          ValueId context, const AttentionSpec& spec) {
  const int64_t width = builder->shape(x)[1];
  const LinearSpec projection{width, spec.qkv_bias};
  const auto project = [&](const std::string& part, ValueId from) {
    return AddLinearWithLora(builder, name + "." + part, from, projection, spec.lora);
  };
  const ValueId q = project(spec.q, x);
  const ValueId k = project(spec.k, context);
  const ValueId v = project(spec.v, context);
  const ValueId y = AddAttention(builder, q, k, v, spec.num_heads, spec.causal);
  LinearSpec out{width};
  out.addend = spec.addend;
  return AddLinearWithLora(builder, name + "." + spec.out, y, out, spec.lora);
}

namespace {

constexpr float kTransformerNormEps = 1e-6f;  // diffusers Transformer2DModel.norm
constexpr int kFeedForwardFactor = 4;         // hidden width / width

// x + attention to itself, or to the context if there is one; adds layer `<name>.attn<number>`.
ValueId AddAttentionLayer(ProgramBuilder* builder, const std::string& name, int number, ValueId x,
                          std::optional<ValueId> context, const TransformerSpec& spec) {
  AttentionSpec attention;
  attention.num_heads = spec.num_heads;
  attention.lora = spec.lora;
  const std::string layer = absl::StrCat(name, ".attn", number);
  const bool adapted = spec.lora.rank > 0;
  builder->BeginLayer(layer, adapted ? LayerKind::kTrainable : spec.kind);
  builder->FreezeParameters(adapted);
  ValueId h = AddLayerNorm(builder, absl::StrCat(name, ".norm", number), x, {});
  builder->FreezeParameters(false);
  attention.addend = x;
  return AddAttentionBlock(builder, layer, h, context.value_or(h), attention);
}

// x [T, C] -> [T, C]: three residual branches, one layer each.
ValueId AddBasicBlock(ProgramBuilder* builder, const std::string& name, ValueId x, ValueId context,
                      const TransformerSpec& spec) {
  const int64_t width = builder->shape(x)[1];
  x = AddAttentionLayer(builder, name, 1, x, std::nullopt, spec);
  x = AddAttentionLayer(builder, name, 2, x, context, spec);

  builder->BeginLayer(name + ".ff", spec.kind);
  ValueId h = AddLayerNorm(builder, name + ".norm3", x, {});
  h = AddLinear(builder, name + ".ff.net.0.proj", h, {2 * kFeedForwardFactor * width});
  h = AddGeglu(builder, h);
  LinearSpec down{width};
  down.addend = x;
  return AddLinear(builder, name + ".ff.net.2", h, down);
}

}  // namespace

ValueId AddTransformer(ProgramBuilder* builder, const std::string& name, ValueId x, ValueId context,
                       const TransformerSpec& spec) {
  const Shape shape = builder->shape(x);  // [H, W, C]
  LinearSpec projection;
  projection.out = shape[2];
  projection.conv1x1 = !spec.linear_projection;

  builder->BeginLayer(name + ".proj_in", spec.kind);
  ValueId h = AddGroupNorm(builder, name + ".norm", x, {spec.groups, kTransformerNormEps, false});
  h = AddReshape(builder, h, Shape({shape[0] * shape[1], shape[2]}));
  h = AddLinear(builder, name + ".proj_in", h, projection);
  for (int i = 0; i < spec.num_blocks; ++i) {
    h = AddBasicBlock(builder, absl::StrCat(name, ".transformer_blocks.", i), h, context, spec);
  }
  builder->BeginLayer(name + ".proj_out", spec.kind);
  projection.addend = AddReshape(builder, x, builder->shape(h));
  h = AddLinear(builder, name + ".proj_out", h, projection);
  return AddReshape(builder, h, shape);
}

}  // namespace dpipe::nn
