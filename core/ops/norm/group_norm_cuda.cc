#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {
namespace {

GroupNormShape ShapeOf(const GroupNormParams& params, const Tensor& x) {
  return {ChannelsLastOf(x), params.groups, params.eps, params.silu};
}

}  // namespace

void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result) {
  const GroupNormShape shape = ShapeOf(params, x);
  const Tensor workspace = Workspace(x, GroupNormWorkspace(shape));
  WithElements(
      [&](const auto* from, auto* to) {
        GroupNormValues(StreamOf(x), shape, from, scale.data<float>(), bias.data<float>(),
                        workspace.data<float>(), result->stats.data<float>(), to);
      },
      x, result->y);
}

void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads) {
  const GroupNormShape shape = ShapeOf(params, x);
  const Tensor workspace = Workspace(x, GroupNormWorkspace(shape));
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        const auto* added =
            addend.defined() ? static_cast<decltype(in)>(addend.raw_data()) : nullptr;
        GroupNormGradient(StreamOf(x), shape, in, grad, stats.data<float>(), scale.data<float>(),
                          bias.data<float>(), added, workspace.data<float>(),
                          grads->sums.data<float>(), to);
      },
      x, dy, grads->dx);
}

void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y) {
  WithElements(
      [&](const auto* from, const auto* vector, auto* to) {
        ModulateValues(StreamOf(x), ChannelsLastOf(x), silu, from, vector, to);
      },
      x, v, *y);
}

void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv) {
  const ChannelsLast shape = ChannelsLastOf(x);
  const Tensor run_sums = Workspace(x, RunSumsSize(shape, 2));
  WithElements(
      [&](const auto* from, const auto* vector, const auto* grad, auto* to, auto* to_vector) {
        ModulateGradient(StreamOf(x), shape, silu, from, vector, grad, run_sums.data<float>(), to,
                         to_vector);
      },
      x, v, dy, *dx, *dv);
}

}  // namespace dpipe::ops::cuda

namespace dpipe::ops {

const GroupNormKernels GroupNormKernels::kCuda = {cuda::GroupNormForward, cuda::GroupNormInputGrad,
                                                  cuda::ModulateForward, cuda::ModulateInputGrad};

}  // namespace dpipe::ops
