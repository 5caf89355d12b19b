#include <algorithm>
#include <vector>

#include "core/ops/norm/rms_norm_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/row_sum.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

template <typename T>
DPIPE_VECTOR_INLINE void ForwardOf(float eps, const T* x, const float* __restrict scale,
                                   T* __restrict y, float* __restrict rstds, int64_t rows,
                                   int64_t channels) {
  const float inverse = 1.0f / static_cast<float>(channels);
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    const float mean_square =
        inverse * RowSum(
                      channels, [=](int64_t c) __attribute__((always_inline)) {
                        const float value = Load(x + c);
                        return value * value;
                      });
    const float rstd = 1.0f / __builtin_sqrtf(mean_square + eps);
    for (int64_t c = 0; c < channels; ++c) Store(y + c, Load(x + c) * rstd * scale[c]);
    rstds[r] = rstd;
  }
}

// Writes the sums of these rows, [channels]; adds `addend`, if not null, to dx.
template <typename T>
DPIPE_VECTOR_INLINE void GradOf(const T* x, const T* dy, const float* __restrict rstds,
                                const float* scale, const T* addend, T* __restrict dx,
                                float* __restrict sums, int64_t rows, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
  const float inverse = 1.0f / static_cast<float>(channels);
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
    const float rstd = rstds[r];
    const float mean = inverse * RowSum(
                                     channels, [=](int64_t c) __attribute__((always_inline)) {
                                       return Load(dy + c) * scale[c] * (Load(x + c) * rstd);
                                     });
    const auto add = [=](int64_t c, float added) __attribute__((always_inline)) {
      const float d = Load(dy + c), h = Load(x + c) * rstd;
      Store(dx + c, rstd * (d * scale[c] - h * mean) + added);
      sums[c] += d * h;
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

DPIPE_VECTOR_CLONES void RmsNormRows(float eps, const float* x, const float* scale, float* y,
                                     float* rstds, int64_t rows, int64_t channels) {
  ForwardOf(eps, x, scale, y, rstds, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormRows(float eps, const Bf16* x, const float* scale, Bf16* y,
                                     float* rstds, int64_t rows, int64_t channels) {
  ForwardOf(eps, x, scale, y, rstds, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormGradRows(const float* x, const float* dy, const float* rstds,
                                         const float* scale, const float* addend, float* dx,
                                         float* sums, int64_t rows, int64_t channels) {
  GradOf(x, dy, rstds, scale, addend, dx, sums, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormGradRows(const Bf16* x, const Bf16* dy, const float* rstds,
                                         const float* scale, const Bf16* addend, Bf16* dx,
                                         float* sums, int64_t rows, int64_t channels) {
  GradOf(x, dy, rstds, scale, addend, dx, sums, rows, channels);
}

void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result) {
  const int64_t channels = x.dim(-1), rows = x.num_elements() / channels;
  constexpr int64_t kRowsPerPiece = 64;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), (rows + kRowsPerPiece - 1) / kRowsPerPiece, [&](int64_t piece) {
          const int64_t begin = piece * kRowsPerPiece;
          RmsNormRows(params.eps, from + begin * channels, scale.data<float>(),
                      to + begin * channels, result->rstd.template data<float>() + begin,
                      std::min(kRowsPerPiece, rows - begin), channels);
        });
      },
      x, result->y);
}

// Rows of heads are many and short. Runs of 128 rows of a sample, whose sums are in fp32, are added
// in double: the error does not grow with the number of rows, and one sample has enough pieces for
// all threads.
void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads) {
  constexpr int64_t kRun = 128;
  const int64_t batch = x.dim(0), channels = x.dim(-1);
  const int64_t rows = x.num_elements() / channels / batch, runs = (rows + kRun - 1) / kRun;
  std::vector<float> run_sums(batch * runs * channels);
  WithElements(
      [&](const auto* from, const auto* gradient, auto* to) {
        const auto* added =
            addend.defined() ? static_cast<decltype(from)>(addend.raw_data()) : nullptr;
        ParallelFor(*x.device(), batch * runs, [&](int64_t piece) {
          const int64_t first = piece % runs * kRun, row = piece / runs * rows + first;
          const int64_t begin = row * channels;
          RmsNormGradRows(from + begin, gradient + begin, rstd.data<float>() + row,
                          scale.data<float>(), added == nullptr ? nullptr : added + begin,
                          to + begin, run_sums.data() + piece * channels,
                          std::min(kRun, rows - first), channels);
        });
      },
      x, dy, grads->dx);
  float* const sums = grads->sums.data<float>();
  std::vector<double> of_sample(channels);
  for (int64_t b = 0; b < batch; ++b) {
    std::fill(of_sample.begin(), of_sample.end(), 0.0);
    for (int64_t run = b * runs; run < (b + 1) * runs; ++run) {
      for (int64_t c = 0; c < channels; ++c) of_sample[c] += run_sums[run * channels + c];
    }
    for (int64_t c = 0; c < channels; ++c) {
      sums[b * channels + c] = static_cast<float>(of_sample[c]);
    }
  }
}

}  // namespace dpipe::ops::cpu
