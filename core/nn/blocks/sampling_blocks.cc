#include "core/nn/blocks/sampling_blocks.h"

#include "core/base/check.h"
#include "core/nn/nodes/conv2d_node.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {

ValueId AddDownsample(ProgramBuilder* builder, const std::string& name, ValueId x, bool asymmetric,
                      LayerKind kind) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK(shape[0] % 2 == 0 && shape[1] % 2 == 0) << name << " of " << shape;
  builder->BeginLayer(name, kind);
  Conv2dSpec spec;
  spec.out_channels = shape[2];
  spec.params = ops::Conv2dSymmetric(/*stride=*/2, /*padding=*/1);
  if (asymmetric) spec.params.pad_top = spec.params.pad_left = 0;
  return AddConv2d(builder, name, x, spec);
}

ValueId AddUpsample(ProgramBuilder* builder, const std::string& name, ValueId x, LayerKind kind) {
  builder->BeginLayer(name, kind);
  return AddConv2d(builder, name, AddUpsample2x(builder, x), {builder->shape(x)[2]});
}

}  // namespace dpipe::nn
