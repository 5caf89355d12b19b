#include "core/ops/image/average_pool_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

// Averages two adjacent rows of x [2 width, channels] into one row of y [width, channels].
template <typename T>
DPIPE_VECTOR_INLINE void Average(const T* __restrict upper, const T* __restrict lower,
                                 T* __restrict y, int64_t width, int64_t channels) {
  for (int64_t w = 0; w < width; ++w) {
    const int64_t left = 2 * w * channels, right = left + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float top = Load(upper + left + c) + Load(upper + right + c);
      const float bottom = Load(lower + left + c) + Load(lower + right + c);
      Store(y + w * channels + c, 0.25f * (top + bottom));
    }
  }
}

// The inverse, for the same rows.
template <typename T>
DPIPE_VECTOR_INLINE void Spread(const T* __restrict dy, T* __restrict upper, T* __restrict lower,
                                int64_t width, int64_t channels) {
  for (int64_t w = 0; w < width; ++w) {
    const int64_t left = 2 * w * channels, right = left + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float quarter = 0.25f * Load(dy + w * channels + c);
      Store(upper + left + c, quarter);
      Store(upper + right + c, quarter);
      Store(lower + left + c, quarter);
      Store(lower + right + c, quarter);
    }
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void AverageRow(const float* upper, const float* lower, float* y, int64_t width,
                                    int64_t channels) {
  Average(upper, lower, y, width, channels);
}
DPIPE_VECTOR_CLONES void AverageRow(const Bf16* upper, const Bf16* lower, Bf16* y, int64_t width,
                                    int64_t channels) {
  Average(upper, lower, y, width, channels);
}
DPIPE_VECTOR_CLONES void SpreadRow(const float* dy, float* upper, float* lower, int64_t width,
                                   int64_t channels) {
  Spread(dy, upper, lower, width, channels);
}
DPIPE_VECTOR_CLONES void SpreadRow(const Bf16* dy, Bf16* upper, Bf16* lower, int64_t width,
                                   int64_t channels) {
  Spread(dy, upper, lower, width, channels);
}

void AveragePool2xForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(2), channels = y->dim(3);
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), y->dim(0) * y->dim(1), [&](int64_t row) {
          const auto* upper = from + row * 4 * width * channels;
          AverageRow(upper, upper + 2 * width * channels, to + row * width * channels, width,
                     channels);
        });
      },
      x, *y);
}

void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(2), channels = dy.dim(3);
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*dy.device(), dy.dim(0) * dy.dim(1), [&](int64_t row) {
          auto* upper = to + row * 4 * width * channels;
          SpreadRow(from + row * width * channels, upper, upper + 2 * width * channels, width,
                    channels);
        });
      },
      dy, *dx);
}

}  // namespace dpipe::ops::cpu
