#include <algorithm>
#include <cstring>
#include <vector>

#include "core/ops/image/resize_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {

namespace {

// Sums 2 x 2 squares of two adjacent rows [2 width, channels] into one row of y [width, channels],
// times `factor`.
template <typename T>
DPIPE_VECTOR_INLINE void SumSquaresOf(float factor, const T* __restrict upper,
                                      const T* __restrict lower, T* __restrict y, int64_t width,
                                      int64_t channels) {
  for (int64_t w = 0; w < width; ++w) {
    const int64_t left = 2 * w * channels, right = left + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float top = Load(upper + left + c) + Load(upper + right + c);
      const float bottom = Load(lower + left + c) + Load(lower + right + c);
      Store(y + w * channels + c, factor * (top + bottom));
    }
  }
}

// The gradient of an average, for the same rows.
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

DPIPE_VECTOR_CLONES void SumSquares(float factor, const float* upper, const float* lower, float* y,
                                    int64_t width, int64_t channels) {
  SumSquaresOf(factor, upper, lower, y, width, channels);
}
DPIPE_VECTOR_CLONES void SumSquares(float factor, const Bf16* upper, const Bf16* lower, Bf16* y,
                                    int64_t width, int64_t channels) {
  SumSquaresOf(factor, upper, lower, y, width, channels);
}
DPIPE_VECTOR_CLONES void SpreadRow(const float* dy, float* upper, float* lower, int64_t width,
                                   int64_t channels) {
  Spread(dy, upper, lower, width, channels);
}
DPIPE_VECTOR_CLONES void SpreadRow(const Bf16* dy, Bf16* upper, Bf16* lower, int64_t width,
                                   int64_t channels) {
  Spread(dy, upper, lower, width, channels);
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
          SumSquares(1.0f, upper, upper + 2 * width * channels, to + row * width * channels, width,
                     channels);
        });
      },
      dy, *dx);
}

void AveragePool2xForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(2), channels = y->dim(3);
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), y->dim(0) * y->dim(1), [&](int64_t row) {
          const auto* upper = from + row * 4 * width * channels;
          SumSquares(0.25f, upper, upper + 2 * width * channels, to + row * width * channels, width,
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

namespace dpipe::ops {

const ResizeKernels ResizeKernels::kCpu = {
    cpu::UpsampleNearest2xForward, cpu::UpsampleNearest2xInputGrad, cpu::AveragePool2xForward,
    cpu::AveragePool2xInputGrad,   cpu::ResizeBilinearForward,      cpu::ResizeBilinearInputGrad};

}  // namespace dpipe::ops
