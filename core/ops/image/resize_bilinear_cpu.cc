#include <algorithm>
#include <vector>

#include "core/ops/image/resize_bilinear_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

// The position of a target pixel between two source pixels.
struct Place {
  int64_t low, high;
  float share;  // of `high`
};

std::vector<Place> Places(int64_t from, int64_t to) {
  std::vector<Place> places(to);
  for (int64_t i = 0; i < to; ++i) {
    const double place = std::max(0.0, (i + 0.5) * static_cast<double>(from) / to - 0.5);
    Place& p = places[i];
    p.low = std::min(static_cast<int64_t>(place), from - 1);
    p.high = std::min(p.low + 1, from - 1);
    p.share = static_cast<float>(std::min(1.0, place - static_cast<double>(p.low)));
  }
  return places;
}

}  // namespace

void ResizeBilinearForward(const Tensor& x, Tensor* y) {
  const std::vector<Place> rows = Places(x.dim(1), y->dim(1)),
                           columns = Places(x.dim(2), y->dim(2));
  const int64_t channels = x.dim(3), row_size = x.dim(2) * channels;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), y->dim(0) * y->dim(1), [&](int64_t row) {
          const Place& r = rows[row % y->dim(1)];
          const auto* image = from + row / y->dim(1) * x.dim(1) * row_size;
          const auto* upper = image + r.low * row_size;
          const auto* lower = image + r.high * row_size;
          auto* out = to + row * y->dim(2) * channels;
          for (const Place& q : columns) {
            const int64_t left = q.low * channels, right = q.high * channels;
            for (int64_t c = 0; c < channels; ++c) {
              const float top =
                  (1 - q.share) * Load(upper + left + c) + q.share * Load(upper + right + c);
              const float bottom =
                  (1 - q.share) * Load(lower + left + c) + q.share * Load(lower + right + c);
              Store(out++, (1 - r.share) * top + r.share * bottom);
            }
          }
        });
      },
      x, *y);
}

void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx) {
  const std::vector<Place> rows = Places(dx->dim(1), dy.dim(1)),
                           columns = Places(dx->dim(2), dy.dim(2));
  const int64_t channels = dy.dim(3), row_size = dx->dim(2) * channels;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*dy.device(), dy.dim(0), [&](int64_t b) {
          std::vector<float> sums(dx->dim(1) * row_size);
          const auto* grad = from + b * dy.dim(1) * dy.dim(2) * channels;
          for (const Place& r : rows) {
            for (const Place& q : columns) {
              for (int64_t c = 0; c < channels; ++c) {
                const float g = Load(grad++);
                float* upper = &sums[r.low * row_size + c];
                float* lower = &sums[r.high * row_size + c];
                upper[q.low * channels] += (1 - r.share) * (1 - q.share) * g;
                upper[q.high * channels] += (1 - r.share) * q.share * g;
                lower[q.low * channels] += r.share * (1 - q.share) * g;
                lower[q.high * channels] += r.share * q.share * g;
              }
            }
          }
          auto* out = to + b * static_cast<int64_t>(sums.size());
          for (size_t i = 0; i < sums.size(); ++i) Store(out + i, sums[i]);
        });
      },
      dy, *dx);
}

}  // namespace dpipe::ops::cpu
