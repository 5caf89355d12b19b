#include <cstring>

#include "core/ops/image/upsample_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

// Sums two adjacent rows of dy [2 width, channels] into one row of dx [width, channels].
template <typename T>
DPIPE_VECTOR_INLINE void SumSquares(const T* __restrict upper, const T* __restrict lower,
                                    T* __restrict dx, int64_t width, int64_t channels) {
  for (int64_t w = 0; w < width; ++w) {
    const int64_t left = 2 * w * channels, right = left + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float top = Load(upper + left + c) + Load(upper + right + c);
      const float bottom = Load(lower + left + c) + Load(lower + right + c);
      Store(dx + w * channels + c, top + bottom);
    }
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void UpsampleGradRow(const float* upper, const float* lower, float* dx,
                                         int64_t width, int64_t channels) {
  SumSquares(upper, lower, dx, width, channels);
}
DPIPE_VECTOR_CLONES void UpsampleGradRow(const Bf16* upper, const Bf16* lower, Bf16* dx,
                                         int64_t width, int64_t channels) {
  SumSquares(upper, lower, dx, width, channels);
}

void UpsampleNearest2xForward(const Tensor& x, Tensor* y) {
  const int64_t width = x.dim(2), pixel = x.dim(3) * SizeOf(x.dtype());
  const char* from = static_cast<const char*>(x.raw_data());
  char* to = static_cast<char*>(y->raw_data());
  ParallelFor(*x.device(), x.dim(0) * x.dim(1), [&](int64_t row) {
    char* upper = to + row * 4 * width * pixel;
    for (int64_t w = 0; w < width; ++w) {
      const char* source = from + (row * width + w) * pixel;
      std::memcpy(upper + 2 * w * pixel, source, pixel);
      std::memcpy(upper + (2 * w + 1) * pixel, source, pixel);
    }
    std::memcpy(upper + 2 * width * pixel, upper, 2 * width * pixel);
  });
}

void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx) {
  const int64_t width = dx->dim(2), channels = dx->dim(3);
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*dy.device(), dx->dim(0) * dx->dim(1), [&](int64_t row) {
          const auto* upper = from + row * 4 * width * channels;
          UpsampleGradRow(upper, upper + 2 * width * channels, to + row * width * channels, width,
                          channels);
        });
      },
      dy, *dx);
}

}  // namespace dpipe::ops::cpu
