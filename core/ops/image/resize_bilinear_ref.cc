#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/image/resize_bilinear_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
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
