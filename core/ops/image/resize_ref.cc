#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/image/resize_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index in the small image's tensor of the pixel that element i of the large one's
// repeats or is averaged into.
int64_t InHalf(int64_t i, const Shape& large) {
  const int64_t c = i % large[3];
  const int64_t w = i / large[3] % large[2];
  const int64_t h = i / (large[3] * large[2]) % large[1];
  const int64_t b = i / (large[3] * large[2] * large[1]);
  return ((b * (large[1] / 2) + h / 2) * (large[2] / 2) + w / 2) * large[3] + c;
}

}  // namespace

void UpsampleNearest2xForward(const Tensor& x, Tensor* y) {
  for (int64_t i = 0; i < y->num_elements(); ++i) Put(*y, i, Get(x, InHalf(i, y->shape())));
}

void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx) {
  std::vector<double> sums(dx->num_elements());
  for (int64_t i = 0; i < dy.num_elements(); ++i) sums[InHalf(i, dy.shape())] += Get(dy, i);
  for (int64_t i = 0; i < dx->num_elements(); ++i) Put(*dx, i, sums[i]);
}

void AveragePool2xForward(const Tensor& x, Tensor* y) {
  std::vector<double> sums(y->num_elements());
  for (int64_t i = 0; i < x.num_elements(); ++i) sums[InHalf(i, x.shape())] += Get(x, i);
  for (int64_t i = 0; i < y->num_elements(); ++i) Put(*y, i, sums[i] / 4);
}

void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx) {
  for (int64_t i = 0; i < dx->num_elements(); ++i) {
    Put(*dx, i, Get(dy, InHalf(i, dx->shape())) / 4);
  }
}

namespace {

// The weight of pixel `from` of `from_size` in pixel `to` of `to_size`: a triangle around the
// position of the target's centre, which is clamped to the outermost centres.
double Weight(int64_t to, int64_t to_size, int64_t from, int64_t from_size) {
  const double place = (to + 0.5) * from_size / to_size - 0.5;
  const double inside = std::clamp<double>(place, 0, from_size - 1);
  return std::max(0.0, 1 - std::abs(inside - from));
}

// Calls f(index in the small or large image's tensor, index in the other one's, weight).
template <typename F>
void ForEachWeight(const Shape& from, const Shape& to, const F& f) {
  for (int64_t i = 0; i < to.num_elements(); ++i) {
    const int64_t c = i % to[3], w = i / to[3] % to[2], h = i / (to[3] * to[2]) % to[1];
    const int64_t b = i / (to[3] * to[2] * to[1]);
    for (int64_t y = 0; y < from[1]; ++y) {
      for (int64_t x = 0; x < from[2]; ++x) {
        const double weight = Weight(h, to[1], y, from[1]) * Weight(w, to[2], x, from[2]);
        if (weight > 0) f(((b * from[1] + y) * from[2] + x) * from[3] + c, i, weight);
      }
    }
  }
}

}  // namespace

void ResizeBilinearForward(const Tensor& x, Tensor* y) {
  std::vector<double> sums(y->num_elements());
  ForEachWeight(x.shape(), y->shape(), [&](int64_t from, int64_t to, double weight) {
    sums[to] += weight * Get(x, from);
  });
  for (int64_t i = 0; i < y->num_elements(); ++i) Put(*y, i, sums[i]);
}

void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx) {
  std::vector<double> sums(dx->num_elements());
  ForEachWeight(dx->shape(), dy.shape(), [&](int64_t from, int64_t to, double weight) {
    sums[from] += weight * Get(dy, to);
  });
  for (int64_t i = 0; i < dx->num_elements(); ++i) Put(*dx, i, sums[i]);
}

}  // namespace dpipe::ops::ref

namespace dpipe::ops {

const ResizeKernels ResizeKernels::kReference = {
    ref::UpsampleNearest2xForward, ref::UpsampleNearest2xInputGrad, ref::AveragePool2xForward,
    ref::AveragePool2xInputGrad,   ref::ResizeBilinearForward,      ref::ResizeBilinearInputGrad};

}  // namespace dpipe::ops
