#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise_kernels.h"
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

void GegluForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(-1), rows = y->num_elements() / width;
  WithElements([&](const auto* from, auto* to) { MapGeglu(StreamOf(x), rows, width, from, to); }, x,
               *y);
}

void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(-1), rows = dy.num_elements() / width;
  WithElements([&](const auto* in, const auto* grad,
                   auto* to) { MapGegluGrad(StreamOf(x), rows, width, in, grad, to); },
               x, dy, *dx);
}

void Add(const Tensor& a, const Tensor& b, Tensor* y) {
  WithElements([&](const auto* pa, const auto* pb,
                   auto* to) { MapAdd(StreamOf(a), a.num_elements(), pa, pb, to); },
               a, b, *y);
}

void AddChannels(const Tensor& x, const Tensor& v, Tensor* y) {
  WithElements([&](const auto* from, const auto* vector,
                   auto* to) { AddVector(StreamOf(x), ChannelsLastOf(x), from, vector, to); },
               x, v, *y);
}

void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv) {
  const ChannelsLast shape = ChannelsLastOf(dy);
  const Tensor run_sums = Workspace(dy, RunSumsSize(shape, 1));
  WithElements(
      [&](const auto* from, auto* to) {
        SumPositions(StreamOf(dy), shape, from, run_sums.data<float>(), to);
      },
      dy, *dv);
}

void Scale(float factor, const Tensor& x, Tensor* y) {
  WithElements([&](const auto* from,
                   auto* to) { MapScale(StreamOf(x), x.num_elements(), factor, from, to); },
               x, *y);
}

void Axpy(float factor, const Tensor& x, Tensor* y) {
  const int64_t n = x.num_elements();
  if (x.dtype() == DType::kBf16 && y->dtype() == DType::kF32) {
    MapAxpy(StreamOf(x), n, factor, x.data<Bf16>(), y->data<float>());
    return;
  }
  WithElements([&](const auto* from, auto* to) { MapAxpy(StreamOf(x), n, factor, from, to); }, x,
               *y);
}

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

void Multiply(const Tensor& a, const Tensor& b, Tensor* y) {
  WithElements([&](const auto* pa, const auto* pb,
                   auto* to) { MapMultiply(StreamOf(a), a.num_elements(), pa, pb, to); },
               a, b, *y);
}

}  // namespace dpipe::ops::cuda

namespace dpipe::ops {

const ElementwiseKernels ElementwiseKernels::kCuda = {cuda::ActivationForward,
                                                      cuda::ActivationInputGrad,
                                                      cuda::GegluForward,
                                                      cuda::GegluInputGrad,
                                                      cuda::Add,
                                                      cuda::AddChannels,
                                                      cuda::AddChannelsVectorGrad,
                                                      cuda::Scale,
                                                      cuda::Axpy,
                                                      cuda::GatedAddForward,
                                                      cuda::GatedAddInputGrad,
                                                      cuda::Multiply};

}  // namespace dpipe::ops
