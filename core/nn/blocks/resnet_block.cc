#include "core/nn/blocks/resnet_block.h"

#include "core/nn/nodes/conv2d_node.h"
#include "core/nn/nodes/linear_node.h"
#include "core/nn/nodes/modulate_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/resize_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {

namespace {

ValueId Resampled(ProgramBuilder* builder, ValueId x, Resample resample) {
  switch (resample) {
    case Resample::kDown:
      return AddAveragePool2x(builder, x);
    case Resample::kUp:
      return AddUpsample2x(builder, x);
    case Resample::kNone:
      break;
  }
  return x;
}

}  // namespace

ValueId AddResnetBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                       const ResnetSpec& spec) {
  const bool scale_shift = spec.scale_shift && spec.time.has_value();
  const ops::GroupNormParams norm{spec.groups, spec.eps, /*silu=*/true};
  builder->BeginLayer(name + ".conv1", spec.kind);
  if (spec.skip.has_value()) x = AddConcat(builder, {x, *spec.skip});
  ValueId h = AddGroupNorm(builder, name + ".norm1", x, norm);
  Conv2dSpec conv1{spec.out_channels}, conv2{spec.out_channels};
  if (spec.time.has_value() && !scale_shift) {
    conv1.addend = AddLinear(builder, name + ".time_emb_proj", *spec.time, {spec.out_channels});
  }
  h = AddConv2d(builder, name + ".conv1", Resampled(builder, h, spec.resample), conv1);
  // Keeps values at the following cuts small: x is halved before them and doubled after them.
  ValueId shortcut = spec.resample == Resample::kDown ? Resampled(builder, x, spec.resample) : x;
  if (builder->shape(x)[-1] != spec.out_channels) {
    // Between the convolutions, so that only h and the shortcut cross later cuts, not x.
    builder->BeginLayer(name + ".conv_shortcut", spec.kind);
    LinearSpec linear;
    linear.out = spec.out_channels;
    linear.conv1x1 = true;
    shortcut = AddLinear(builder, name + ".conv_shortcut", shortcut, linear);
  }
  builder->BeginLayer(name + ".conv2", spec.kind);
  if (spec.resample == Resample::kUp) shortcut = Resampled(builder, shortcut, spec.resample);
  if (scale_shift) {
    const ValueId t =
        AddLinear(builder, name + ".time_emb_proj", *spec.time, {2 * spec.out_channels});
    h = AddGroupNorm(builder, name + ".norm2", h, {spec.groups, spec.eps, /*silu=*/false});
    h = AddModulation(builder, h, t, /*silu=*/true);
  } else {
    h = AddGroupNorm(builder, name + ".norm2", h, norm);
  }
  conv2.addend = shortcut;
  return AddConv2d(builder, name + ".conv2", h, conv2);
}

}  // namespace dpipe::nn
