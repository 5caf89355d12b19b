#include "core/ops/cuda/kernels/group_norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/norm/group_norm_kernels.h"
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

void GroupNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias) {
  AddNormWeightGrads(StreamOf(sums), sums.dim(0), sums.dim(1), 1, 2, sums.data<float>(),
                     dscale->data<float>(), dbias->data<float>());
}

}  // namespace dpipe::ops::cuda
