#include "core/nn/blocks/resnet_block.h"

#include "core/base/check.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
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
