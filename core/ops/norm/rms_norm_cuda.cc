#include "core/ops/cuda/kernels/rms_norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/norm/rms_norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result) {
  const int64_t channels = x.dim(-1), rows = x.num_elements() / channels;
  WithElements(
      [&](const auto* from, auto* to) {
        RmsNormValues(StreamOf(x), rows, channels, params.eps, from, scale.data<float>(),
                      result->rstd.data<float>(), to);
      },
      x, result->y);
}

void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads) {
  const ChannelsLast shape = ChannelsLastOf(x);
  const Tensor run_sums = Workspace(x, RunSumsSize(shape, 1));
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        const auto* added =
            addend.defined() ? static_cast<decltype(in)>(addend.raw_data()) : nullptr;
        RmsNormGradient(StreamOf(x), shape, in, grad, rstd.data<float>(), scale.data<float>(),
                        added, run_sums.data<float>(), grads->sums.data<float>(), to);
      },
      x, dy, grads->dx);
}

void RmsNormWeightGrad(const Tensor& sums, Tensor* dscale) {
  AddRmsNormWeightGrad(StreamOf(sums), sums.dim(0), sums.dim(1), sums.data<float>(),
                       dscale->data<float>());
}

}  // namespace dpipe::ops::cuda
