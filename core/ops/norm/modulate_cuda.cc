#include "core/ops/cuda/kernels/channels.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/norm/modulate_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

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
