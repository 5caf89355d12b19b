#include "core/ops/cuda/kernels/channels.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/gated_add_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y) {
  WithElements([&](const auto* from, const auto* gates, const auto* branch,
                   auto* to) { AddGated(StreamOf(x), ChannelsLastOf(x), from, gates, branch, to); },
               x, gate, h, *y);
}

void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy,
                       GatedAddGrads* grads) {
  const ChannelsLast shape = ChannelsLastOf(h);
  const Tensor run_sums = Workspace(h, RunSumsSize(shape, 1));
  WithElements(
      [&](const auto* gates, const auto* branch, const auto* gradient, auto* to_gates, auto* to) {
        AddGatedGradient(StreamOf(h), shape, gates, branch, gradient, run_sums.data<float>(),
                         to_gates, to);
      },
      gate, h, dy, grads->dgate, grads->dh);
}

}  // namespace dpipe::ops::cuda
