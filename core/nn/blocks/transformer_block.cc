#include "core/nn/blocks/transformer_block.h"

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/attention_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/linear_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {
namespace {

constexpr float kTransformerNormEps = 1e-6f;  // diffusers Transformer2DModel.norm
constexpr int kFeedForwardFactor = 4;         // hidden width / width

// x [T, C] -> [T, C]: three residual branches, a layer each.
ValueId AddBasicBlock(ProgramBuilder* builder, const std::string& name, ValueId x, ValueId context,
                      const TransformerSpec& spec) {
  const int64_t width = builder->shape(x)[1];
  AttentionSpec attention;
  attention.num_heads = spec.num_heads;

  builder->BeginLayer(name + ".attn1", spec.kind);
  ValueId h = AddLayerNorm(builder, name + ".norm1", x, {});
  h = AddAttentionBlock(builder, name + ".attn1", h, h, attention);
  x = AddSum(builder, h, x);

  builder->BeginLayer(name + ".attn2", spec.kind);
  h = AddLayerNorm(builder, name + ".norm2", x, {});
  h = AddAttentionBlock(builder, name + ".attn2", h, context, attention);
  x = AddSum(builder, h, x);

  builder->BeginLayer(name + ".ff", spec.kind);
  h = AddLayerNorm(builder, name + ".norm3", x, {});
  h = AddLinear(builder, name + ".ff.net.0.proj", h, {2 * kFeedForwardFactor * width});
  h = AddGeglu(builder, h);
  h = AddLinear(builder, name + ".ff.net.2", h, {width});
  return AddSum(builder, h, x);
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
  h = AddLinear(builder, name + ".proj_out", h, projection);
  h = AddReshape(builder, h, shape);
  return AddSum(builder, h, x);
}

}  // namespace dpipe::nn
