#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/activation_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void ActivationForward(Activation activation, const Tensor& x, Tensor* y) {
  WithElements(
      [&](const auto* from, auto* to) {
        MapActivation(StreamOf(x), activation, x.num_elements(), from, to);
      },
      x, *y);
}

void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx) {
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        MapActivationGrad(StreamOf(x), activation, x.num_elements(), in, grad, to);
      },
      x, dy, *dx);
}

}  // namespace dpipe::ops::cuda
