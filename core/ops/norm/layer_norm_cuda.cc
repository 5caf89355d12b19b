#include "core/ops/cuda/kernels/group_norm.h"
#include "core/ops/cuda/kernels/layer_norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/norm/layer_norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result) {
  const int64_t channels = x.dim(-1), rows = x.num_elements() / channels;
  const int64_t vectors = scale.num_elements() / channels;
  WithElements(
      [&](const auto* from, auto* to) {
        LayerNormValues(StreamOf(x), rows, channels, rows / vectors, params.eps, from,
                        scale.data<float>(), bias.data<float>(), result->stats.data<float>(), to);
      },
      x, result->y);
}

void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads) {
  const ChannelsLast shape = ChannelsLastOf(x);
  const Tensor run_sums = Workspace(x, RunSumsSize(shape, 2));
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        const auto* added =
            addend.defined() ? static_cast<decltype(in)>(addend.raw_data()) : nullptr;
        LayerNormGradient(StreamOf(x), shape, in, grad, stats.data<float>(), scale.data<float>(),
                          scale.shape().rank() == 2 ? shape.channels : 0, added,
                          run_sums.data<float>(), grads->sums.data<float>(), to);
      },
      x, dy, grads->dx);
}

void LayerNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias) {
  const int64_t channels = sums.dim(2);
  AddNormWeightGrads(StreamOf(sums), sums.dim(0), channels, channels, 1, sums.data<float>(),
                     dscale->data<float>(), dbias->data<float>());
}

}  // namespace dpipe::ops::cuda
