#include "core/nn/blocks/resnet_block.h"

#include "core/nn/nodes/conv2d_node.h"
#include "core/nn/nodes/linear_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {

ValueId AddResnetBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                       const ResnetSpec& spec) {
  const ops::GroupNormParams norm{spec.groups, spec.eps, /*silu=*/true};
  builder->BeginLayer(name + ".conv1", spec.kind);
  if (spec.skip.has_value()) x = AddConcat(builder, {x, *spec.skip});
  ValueId h = AddGroupNorm(builder, name + ".norm1", x, norm);
  h = AddConv2d(builder, name + ".conv1", h, {spec.out_channels});
  if (spec.time.has_value()) {
    const ValueId t = AddLinear(builder, name + ".time_emb_proj", *spec.time, {spec.out_channels});
    h = AddChannelSum(builder, h, t);
  }
  ValueId shortcut = x;
  if (builder->shape(x)[-1] != spec.out_channels) {
    // Between the convolutions: after it only h and the shortcut cross a cut, not x.
    builder->BeginLayer(name + ".conv_shortcut", spec.kind);
    LinearSpec linear;
    linear.out = spec.out_channels;
    linear.conv1x1 = true;
    shortcut = AddLinear(builder, name + ".conv_shortcut", x, linear);
  }
  builder->BeginLayer(name + ".conv2", spec.kind);
  h = AddGroupNorm(builder, name + ".norm2", h, norm);
  h = AddConv2d(builder, name + ".conv2", h, {spec.out_channels});
  return AddSum(builder, shortcut, h);
}

}  // namespace dpipe::nn
