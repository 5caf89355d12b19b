#include "core/ops/cuda/kernels/channels.h"
#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/add_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

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

}  // namespace dpipe::ops::cuda
