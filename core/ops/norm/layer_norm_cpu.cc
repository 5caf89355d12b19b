#include <algorithm>
#include <vector>

#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/row_sum.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

// Returns the mean of term(i), i in [0, n).
template <typename Term>
DPIPE_VECTOR_INLINE float Mean(int64_t n, const Term& term) {
  return 1.0f / static_cast<float>(n) * RowSum(n, term);
}

// Calls write(c, addend[c]) for each channel of a row, or write(c, 0) if there is no addend.
template <typename T, typename Write>
DPIPE_VECTOR_INLINE void WithAddendOfRow(int64_t channels, const T* addend, const Write& write) {
  if (addend == nullptr) {
    for (int64_t c = 0; c < channels; ++c) write(c, 0.0f);
  } else {
    for (int64_t c = 0; c < channels; ++c) write(c, Load(addend + c));
  }
}

template <typename T>
DPIPE_VECTOR_INLINE void LayerNormOf(float eps, const T* x, const float* __restrict scale,
                                     const float* __restrict bias, T* __restrict y,
                                     float* __restrict stats, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    const auto value = [=](int64_t c) __attribute__((always_inline)) { return Load(x + c); };
    const float mean = Mean(channels, value);
    const auto square = [=](int64_t c) __attribute__((always_inline)) {
      const float d = Load(x + c) - mean;
      return d * d;
    };
    const float rstd = 1.0f / __builtin_sqrtf(Mean(channels, square) + eps);
    for (int64_t c = 0; c < channels; ++c) {
      Store(y + c, (Load(x + c) - mean) * rstd * scale[c] + bias[c]);
    }
    stats[2 * r] = mean;
    stats[2 * r + 1] = rstd;
  }
}

// Processes the rows of one sample. Writes sums [2, channels]; adds `addend`, if not null, to dx.
template <typename T>
DPIPE_VECTOR_INLINE void LayerNormGradOf(const T* x, const T* dy, const float* __restrict stats,
                                         const float* scale, const T* addend, T* __restrict dx,
                                         float* __restrict sums, int64_t rows, int64_t channels) {
  float* __restrict dbias = sums;
  float* __restrict dscale = sums + channels;
  for (int64_t c = 0; c < 2 * channels; ++c) sums[c] = 0;
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
    const float mean = stats[2 * r], rstd = stats[2 * r + 1];
    const auto scaled = [=](int64_t c) __attribute__((always_inline)) {
      return Load(dy + c) * scale[c];
    };
    const float first = Mean(channels, scaled);
    const auto times_h = [=](int64_t c) __attribute__((always_inline)) {
      return Load(dy + c) * scale[c] * ((Load(x + c) - mean) * rstd);
    };
    const float second = Mean(channels, times_h);
    const auto write = [=](int64_t c, float added) __attribute__((always_inline)) {
      const float d = Load(dy + c), h = (Load(x + c) - mean) * rstd;
      Store(dx + c, rstd * (d * scale[c] - first - h * second) + added);
      dbias[c] += d;
      dscale[c] += d * h;
    };
    WithAddendOfRow(channels, addend == nullptr ? nullptr : addend + r * channels, write);
  }
}

template <typename T>
DPIPE_VECTOR_INLINE void RmsNormOf(float eps, const T* x, const float* __restrict scale,
                                   T* __restrict y, float* __restrict rstds, int64_t rows,
                                   int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    const auto square = [=](int64_t c) __attribute__((always_inline)) {
      const float value = Load(x + c);
      return value * value;
    };
    const float rstd = 1.0f / __builtin_sqrtf(Mean(channels, square) + eps);
    for (int64_t c = 0; c < channels; ++c) Store(y + c, Load(x + c) * rstd * scale[c]);
    rstds[r] = rstd;
  }
}

// Writes the sums of these rows, [channels]; adds `addend`, if not null, to dx.
template <typename T>
DPIPE_VECTOR_INLINE void RmsNormGradOf(const T* x, const T* dy, const float* __restrict rstds,
                                       const float* scale, const T* addend, T* __restrict dx,
                                       float* __restrict sums, int64_t rows, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
    const float rstd = rstds[r];
    const auto times_h = [=](int64_t c) __attribute__((always_inline)) {
      return Load(dy + c) * scale[c] * (Load(x + c) * rstd);
    };
    const float mean = Mean(channels, times_h);
    const auto write = [=](int64_t c, float added) __attribute__((always_inline)) {
      const float d = Load(dy + c), h = Load(x + c) * rstd;
      Store(dx + c, rstd * (d * scale[c] - h * mean) + added);
      sums[c] += d * h;
    };
    WithAddendOfRow(channels, addend == nullptr ? nullptr : addend + r * channels, write);
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void LayerNormRows(float eps, const float* x, const float* scale,
                                       const float* bias, float* y, float* stats, int64_t rows,
                                       int64_t channels) {
  LayerNormOf(eps, x, scale, bias, y, stats, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormRows(float eps, const Bf16* x, const float* scale,
                                       const float* bias, Bf16* y, float* stats, int64_t rows,
                                       int64_t channels) {
  LayerNormOf(eps, x, scale, bias, y, stats, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormGradRows(const float* x, const float* dy, const float* stats,
                                           const float* scale, const float* addend, float* dx,
                                           float* sums, int64_t rows, int64_t channels) {
  LayerNormGradOf(x, dy, stats, scale, addend, dx, sums, rows, channels);
}
DPIPE_VECTOR_CLONES void LayerNormGradRows(const Bf16* x, const Bf16* dy, const float* stats,
                                           const float* scale, const Bf16* addend, Bf16* dx,
                                           float* sums, int64_t rows, int64_t channels) {
  LayerNormGradOf(x, dy, stats, scale, addend, dx, sums, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormRows(float eps, const float* x, const float* scale, float* y,
                                     float* rstds, int64_t rows, int64_t channels) {
  RmsNormOf(eps, x, scale, y, rstds, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormRows(float eps, const Bf16* x, const float* scale, Bf16* y,
                                     float* rstds, int64_t rows, int64_t channels) {
  RmsNormOf(eps, x, scale, y, rstds, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormGradRows(const float* x, const float* dy, const float* rstds,
                                         const float* scale, const float* addend, float* dx,
                                         float* sums, int64_t rows, int64_t channels) {
  RmsNormGradOf(x, dy, rstds, scale, addend, dx, sums, rows, channels);
}
DPIPE_VECTOR_CLONES void RmsNormGradRows(const Bf16* x, const Bf16* dy, const float* rstds,
                                         const float* scale, const Bf16* addend, Bf16* dx,
                                         float* sums, int64_t rows, int64_t channels) {
  RmsNormGradOf(x, dy, rstds, scale, addend, dx, sums, rows, channels);
}

namespace {

// Divides `groups` of `rows` rows into pieces of up to `max_rows` rows of a group, and calls
// f(piece, group, first row of all, number of rows) for each.
template <typename F>
void ForPieces(const Device& device, int64_t groups, int64_t rows, int64_t max_rows, const F& f) {
  const int64_t pieces = (rows + max_rows - 1) / max_rows;
  ParallelFor(device, groups * pieces, [&](int64_t piece) {
    const int64_t group = piece / pieces, first = piece % pieces * max_rows;
    f(piece, group, group * rows + first, std::min(max_rows, rows - first));
  });
}

constexpr int64_t kRowsPerPiece = 64;

// Returns the addend from `begin` on, or null if there is none.
template <typename T>
const T* AddendAt(const Tensor& addend, int64_t begin, const T*) {
  return addend.defined() ? static_cast<const T*>(addend.raw_data()) + begin : nullptr;
}

}  // namespace

void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result) {
  const int64_t channels = x.dim(-1), vectors = scale.num_elements() / channels;
  const int64_t rows = x.num_elements() / channels / vectors;  // that share a vector
  WithElements(
      [&](const auto* from, auto* to) {
        ForPieces(*x.device(), vectors, rows, kRowsPerPiece,
                  [&](int64_t, int64_t v, int64_t row, int64_t count) {
                    LayerNormRows(params.eps, from + row * channels,
                                  scale.data<float>() + v * channels,
                                  bias.data<float>() + v * channels, to + row * channels,
                                  result->stats.template data<float>() + 2 * row, count, channels);
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
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          const int64_t begin = b * rows * channels;
          LayerNormGradRows(from + begin, gradient + begin, stats.data<float>() + b * rows * 2,
                            scale.data<float>() + b * scale_stride, AddendAt(addend, begin, from),
                            to + begin, grads->sums.template data<float>() + b * 2 * channels, rows,
                            channels);
        });
      },
      x, dy, grads->dx);
}

void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result) {
  const int64_t channels = x.dim(-1), rows = x.num_elements() / channels;
  WithElements(
      [&](const auto* from, auto* to) {
        ForPieces(*x.device(), 1, rows, kRowsPerPiece,
                  [&](int64_t, int64_t, int64_t row, int64_t count) {
                    RmsNormRows(params.eps, from + row * channels, scale.data<float>(),
                                to + row * channels, result->rstd.template data<float>() + row,
                                count, channels);
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
        ForPieces(*x.device(), batch, rows, kRun,
                  [&](int64_t piece, int64_t, int64_t row, int64_t count) {
                    const int64_t begin = row * channels;
                    RmsNormGradRows(from + begin, gradient + begin, rstd.data<float>() + row,
                                    scale.data<float>(), AddendAt(addend, begin, from), to + begin,
                                    run_sums.data() + piece * channels, count, channels);
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

namespace dpipe::ops {

const LayerNormKernels LayerNormKernels::kCpu = {cpu::LayerNormForward, cpu::LayerNormInputGrad,
                                                 cpu::RmsNormForward, cpu::RmsNormInputGrad};

}  // namespace dpipe::ops
