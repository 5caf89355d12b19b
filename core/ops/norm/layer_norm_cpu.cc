#include <cmath>

#include "core/ops/norm/layer_norm_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/row_sum.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

template <typename T>
DPIPE_VECTOR_INLINE void ForwardOf(float eps, const T* x, const float* __restrict scale,
                                   const float* __restrict bias, T* __restrict y,
                                   float* __restrict stats, int64_t rows, int64_t channels) {
  const float inverse = 1.0f / static_cast<float>(channels);
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    const float mean = inverse * RowSum(
                                     channels, [=](int64_t c) __attribute__((always_inline)) {
                                       return Load(x + c);
                                     });
    const float variance = inverse * RowSum(
                                         channels, [=](int64_t c) __attribute__((always_inline)) {
                                           const float d = Load(x + c) - mean;
                                           return d * d;
                                         });
    const float rstd = 1.0f / __builtin_sqrtf(variance + eps);
    for (int64_t c = 0; c < channels; ++c) {
      Store(y + c, (Load(x + c) - mean) * rstd * scale[c] + bias[c]);
    }
    stats[2 * r] = mean;
    stats[2 * r + 1] = rstd;
  }
}

// Processes the rows of one sample. Writes sums [2, channels]; adds `addend`, if not null, to dx.
template <typename T>
DPIPE_VECTOR_INLINE void GradOf(const T* x, const T* dy, const float* __restrict stats,
                                const float* scale, const T* addend, T* __restrict dx,
                                float* __restrict sums, int64_t rows, int64_t channels) {
  float* __restrict dbias = sums;
  float* __restrict dscale = sums + channels;
  for (int64_t c = 0; c < 2 * channels; ++c) sums[c] = 0;
  const float inverse = 1.0f / static_cast<float>(channels);
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
    const float mean = stats[2 * r], rstd = stats[2 * r + 1];
    const float first = inverse * RowSum(
                                      channels, [=](int64_t c) __attribute__((always_inline)) {
                                        return Load(dy + c) * scale[c];
                                      });
    const float second =
        inverse * RowSum(
                      channels, [=](int64_t c) __attribute__((always_inline)) {
                        return Load(dy + c) * scale[c] * ((Load(x + c) - mean) * rstd);
                      });
    const auto add = [=](int64_t c, float added) __attribute__((always_inline)) {
      const float d = Load(dy + c), h = (Load(x + c) - mean) * rstd;
      Store(dx + c, rstd * (d * scale[c] - first - h * second) + added);
      dbias[c] += d;
      dscale[c] += d * h;
    };
    if (addend == nullptr) {
      for (int64_t c = 0; c < channels; ++c) add(c, 0.0f);
    } else {
      for (int64_t c = 0; c < channels; ++c) add(c, Load(addend + c));
      addend += channels;
    }
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void LayerNormRows(float eps, const float* x, const float* scale,
                                       const float* bias, float* y, float* stats, int64_t rows,
                                       int64_t channels) {
  ForwardOf(eps, x, scale, bias, y, stats, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormRows(float eps, const Bf16* x, const float* scale,
                                       const float* bias, Bf16* y, float* stats, int64_t rows,
                                       int64_t channels) {
  ForwardOf(eps, x, scale, bias, y, stats, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormGradRows(const float* x, const float* dy, const float* stats,
                                           const float* scale, const float* addend, float* dx,
                                           float* sums, int64_t rows, int64_t channels) {
  GradOf(x, dy, stats, scale, addend, dx, sums, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormGradRows(const Bf16* x, const Bf16* dy, const float* stats,
                                           const float* scale, const Bf16* addend, Bf16* dx,
                                           float* sums, int64_t rows, int64_t channels) {
  GradOf(x, dy, stats, scale, addend, dx, sums, rows, channels);
}

void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result) {
  const int64_t channels = x.dim(-1), vectors = scale.num_elements() / channels;
  const int64_t rows = x.num_elements() / channels / vectors;  // that share a vector
  constexpr int64_t kRowsPerPiece = 64;
  const int64_t pieces = (rows + kRowsPerPiece - 1) / kRowsPerPiece;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), vectors * pieces, [&](int64_t piece) {
          const int64_t v = piece / pieces, first = piece % pieces * kRowsPerPiece;
          const int64_t begin = v * rows + first;
          LayerNormRows(params.eps, from + begin * channels, scale.data<float>() + v * channels,
                        bias.data<float>() + v * channels, to + begin * channels,
                        result->stats.template data<float>() + 2 * begin,
                        std::min(kRowsPerPiece, rows - first), channels);
        });
      },
      x, result->y);
}

void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads) {
  const int64_t channels = x.dim(-1), rows = x.num_elements() / channels / x.dim(0);
  const int64_t scale_stride = scale.shape().rank() == 2 ? channels : 0;
  WithElements(
      [&](const auto* from, const auto* gradient, auto* to) {
        const auto* added =
            addend.defined() ? static_cast<decltype(from)>(addend.raw_data()) : nullptr;
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          const int64_t begin = b * rows * channels;
          LayerNormGradRows(from + begin, gradient + begin, stats.data<float>() + b * rows * 2,
                            scale.data<float>() + b * scale_stride,
                            added == nullptr ? nullptr : added + begin, to + begin,
                            grads->sums.template data<float>() + b * 2 * channels, rows, channels);
        });
      },
      x, dy, grads->dx);
}

}  // namespace dpipe::ops::cpu
