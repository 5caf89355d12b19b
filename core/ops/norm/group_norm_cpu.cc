#include <cmath>
#include <vector>

#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/ops/support/vector_math.h"

namespace dpipe::ops::cpu {
namespace {

// Group norm goes sample by sample. Forward reads x twice: for the statistics and to normalize.
// Backward reads x and dy once for the sums over positions. For dx it then reads x and the gradient
// before the activation.

template <typename T>
DPIPE_VECTOR_INLINE void MomentsOf(const T* __restrict x, const float* __restrict shift,
                                   int64_t positions, int64_t channels, double* const* sums) {
  const auto terms = [=](int64_t i, int64_t c, float* out) __attribute__((always_inline)) {
    const float d = Load(x + i) - shift[c];
    out[0] = d;
    out[1] = d * d;
  };
  SumOverPositions<2>(positions, channels, terms, sums);
}

template <typename T>
DPIPE_VECTOR_INLINE void NormalizeOf(bool silu, const T* __restrict x, const float* __restrict a,
                                     const float* __restrict b, T* __restrict y, int64_t positions,
                                     int64_t channels) {
  for (int64_t p = 0; p < positions; ++p, x += channels, y += channels) {
    if (silu) {
      for (int64_t c = 0; c < channels; ++c) Store(y + c, Silu(Load(x + c) * a[c] + b[c]));
    } else {
      for (int64_t c = 0; c < channels; ++c) Store(y + c, Load(x + c) * a[c] + b[c]);
    }
  }
}

// dz = dy silu'(x a + b).
template <typename T>
DPIPE_VECTOR_INLINE void BeforeSiluOf(const T* __restrict x, const T* __restrict dy,
                                      const float* __restrict a, const float* __restrict b,
                                      float* __restrict dz, int64_t positions, int64_t channels) {
  for (int64_t p = 0; p < positions; ++p, x += channels, dy += channels, dz += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      dz[c] = Load(dy + c) * SiluGrad(Load(x + c) * a[c] + b[c]);
    }
  }
}

template <typename T, typename D>
DPIPE_VECTOR_INLINE void GradSumsOf(const T* __restrict x, const D* __restrict dz,
                                    const float* __restrict mean, int64_t positions,
                                    int64_t channels, double* const* sums) {
  const auto terms = [=](int64_t i, int64_t c, float* out) __attribute__((always_inline)) {
    const float d = Load(dz + i);
    out[0] = d;
    out[1] = d * (Load(x + i) - mean[c]);
  };
  SumOverPositions<2>(positions, channels, terms, sums);
}

// dx = dz a - first - (x - mean) second + addend, which may be null. dz and dx may share memory.
template <typename T, typename D>
DPIPE_VECTOR_INLINE void InputGradOf(const T* x, const D* dz, const float* a, const float* mean,
                                     const float* first, const float* second, const T* addend,
                                     T* dx, int64_t positions, int64_t channels) {
  for (int64_t p = 0; p < positions; ++p, x += channels, dz += channels, dx += channels) {
    const auto grad = [=](int64_t c) __attribute__((always_inline)) {
      return Load(dz + c) * a[c] - first[c] - (Load(x + c) - mean[c]) * second[c];
    };
    if (addend == nullptr) {
      DPIPE_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < channels; ++c) Store(dx + c, grad(c));
    } else {
      DPIPE_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < channels; ++c) Store(dx + c, grad(c) + Load(addend + c));
      addend += channels;
    }
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void Moments(const float* x, const float* shift, int64_t positions,
                                 int64_t channels, double* const* sums) {
  MomentsOf(x, shift, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void Moments(const Bf16* x, const float* shift, int64_t positions,
                                 int64_t channels, double* const* sums) {
  MomentsOf(x, shift, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void Normalize(bool silu, const float* x, const float* a, const float* b,
                                   float* y, int64_t positions, int64_t channels) {
  NormalizeOf(silu, x, a, b, y, positions, channels);
}
DPIPE_VECTOR_CLONES void Normalize(bool silu, const Bf16* x, const float* a, const float* b,
                                   Bf16* y, int64_t positions, int64_t channels) {
  NormalizeOf(silu, x, a, b, y, positions, channels);
}
DPIPE_VECTOR_CLONES void BeforeSilu(const float* x, const float* dy, const float* a, const float* b,
                                    float* dz, int64_t positions, int64_t channels) {
  BeforeSiluOf(x, dy, a, b, dz, positions, channels);
}
DPIPE_VECTOR_CLONES void BeforeSilu(const Bf16* x, const Bf16* dy, const float* a, const float* b,
                                    float* dz, int64_t positions, int64_t channels) {
  BeforeSiluOf(x, dy, a, b, dz, positions, channels);
}
DPIPE_VECTOR_CLONES void GradSums(const float* x, const float* dz, const float* mean,
                                  int64_t positions, int64_t channels, double* const* sums) {
  GradSumsOf(x, dz, mean, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void GradSums(const Bf16* x, const float* dz, const float* mean,
                                  int64_t positions, int64_t channels, double* const* sums) {
  GradSumsOf(x, dz, mean, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void GradSums(const Bf16* x, const Bf16* dz, const float* mean,
                                  int64_t positions, int64_t channels, double* const* sums) {
  GradSumsOf(x, dz, mean, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void InputGrad(const float* x, const float* dz, const float* a,
                                   const float* mean, const float* first, const float* second,
                                   const float* addend, float* dx, int64_t positions,
                                   int64_t channels) {
  InputGradOf(x, dz, a, mean, first, second, addend, dx, positions, channels);
}
DPIPE_VECTOR_CLONES void InputGrad(const Bf16* x, const float* dz, const float* a,
                                   const float* mean, const float* first, const float* second,
                                   const Bf16* addend, Bf16* dx, int64_t positions,
                                   int64_t channels) {
  InputGradOf(x, dz, a, mean, first, second, addend, dx, positions, channels);
}
DPIPE_VECTOR_CLONES void InputGrad(const Bf16* x, const Bf16* dz, const float* a, const float* mean,
                                   const float* first, const float* second, const Bf16* addend,
                                   Bf16* dx, int64_t positions, int64_t channels) {
  InputGradOf(x, dz, a, mean, first, second, addend, dx, positions, channels);
}

namespace {

struct Dims {
  Dims(const GroupNormParams& params, const Tensor& x)
      : positions(x.num_elements() / x.dim(0) / x.dim(-1)),
        channels(x.dim(-1)),
        groups(params.groups),
        width(channels / groups),
        count(static_cast<double>(positions) * width) {}
  int64_t positions, channels, groups, width;
  double count;  // elements of a group
};

// Returns a value near each group's mean, repeated over the group's channels: the mean over up to
// 32 evenly spaced positions. Moments about it do not cancel.
template <typename T>
std::vector<float> Shift(const Dims& dims, const T* x) {
  std::vector<double> sums(dims.groups);
  const int64_t stride = (dims.positions + 31) / 32;
  int64_t positions = 0;
  for (int64_t p = 0; p < dims.positions; p += stride, ++positions) {
    const T* row = x + p * dims.channels;
    for (int64_t g = 0; g < dims.groups; ++g) {
      for (int64_t c = g * dims.width; c < (g + 1) * dims.width; ++c) sums[g] += Load(row + c);
    }
  }
  std::vector<float> shift(dims.channels);
  for (int64_t c = 0; c < dims.channels; ++c) {
    shift[c] = static_cast<float>(sums[c / dims.width] / (positions * dims.width));
  }
  return shift;
}

// Writes the mean and rstd of each group of the sample at `x` to stats [groups, 2].
template <typename T>
void Statistics(const Dims& dims, double eps, const T* x, float* stats) {
  const std::vector<float> shift = Shift(dims, x);
  std::vector<double> first(dims.channels), second(dims.channels);
  double* const sums[] = {first.data(), second.data()};
  Moments(x, shift.data(), dims.positions, dims.channels, sums);
  for (int64_t g = 0; g < dims.groups; ++g) {
    double sum = 0, square = 0;
    for (int64_t c = g * dims.width; c < (g + 1) * dims.width; ++c) {
      sum += first[c];
      square += second[c];
    }
    const double offset = sum / dims.count;
    // Negative only by rounding, if all values are equal. A NaN must stay NaN.
    double variance = square / dims.count - offset * offset;
    if (variance < 0) variance = 0;
    stats[2 * g] = static_cast<float>(shift[g * dims.width] + offset);
    stats[2 * g + 1] = static_cast<float>(1 / std::sqrt(variance + eps));
  }
}

// norm(x) = x a + b, per channel: statistics and parameters combined.
struct Affine {
  Affine(const Dims& dims, const float* stats, const Tensor& scale, const Tensor& bias)
      : a(dims.channels), b(dims.channels), mean(dims.channels) {
    for (int64_t c = 0; c < dims.channels; ++c) {
      const float* s = stats + 2 * (c / dims.width);
      const double factor = double{s[1]} * scale.data<float>()[c];
      a[c] = static_cast<float>(factor);
      b[c] = static_cast<float>(bias.data<float>()[c] - s[0] * factor);
      mean[c] = s[0];
    }
  }
  std::vector<float> a, b, mean;
};

// From GradSums' results for one sample, computes the sums that the weight gradient needs, and dx
// with the addend, if there is one.
template <typename T, typename D>
void InputGradOfSample(const Dims& dims, const T* x, const D* dz, const float* stats,
                       const Tensor& scale, const Affine& affine, const T* addend,
                       float* weight_sums, T* dx) {
  std::vector<double> s0(dims.channels), s1(dims.channels);
  double* const sums[] = {s0.data(), s1.data()};
  GradSums(x, dz, affine.mean.data(), dims.positions, dims.channels, sums);
  std::vector<float> first(dims.channels), second(dims.channels);
  for (int64_t g = 0; g < dims.groups; ++g) {
    const double rstd = stats[2 * g + 1];
    double plain = 0, centred = 0;
    for (int64_t c = g * dims.width; c < (g + 1) * dims.width; ++c) {
      plain += s0[c] * scale.data<float>()[c];
      centred += s1[c] * scale.data<float>()[c];
      weight_sums[2 * c] = static_cast<float>(s0[c]);
      weight_sums[2 * c + 1] = static_cast<float>(s1[c] * rstd);
    }
    for (int64_t c = g * dims.width; c < (g + 1) * dims.width; ++c) {
      first[c] = static_cast<float>(rstd * plain / dims.count);
      second[c] = static_cast<float>(rstd * rstd * rstd * centred / dims.count);
    }
  }
  InputGrad(x, dz, affine.a.data(), affine.mean.data(), first.data(), second.data(), addend, dx,
            dims.positions, dims.channels);
}

}  // namespace

void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result) {
  const Dims dims(params, x);
  const int64_t sample = dims.positions * dims.channels;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          float* stats = result->stats.data<float>() + b * dims.groups * 2;
          Statistics(dims, params.eps, from + b * sample, stats);
          const Affine affine(dims, stats, scale, bias);
          Normalize(params.silu, from + b * sample, affine.a.data(), affine.b.data(),
                    to + b * sample, dims.positions, dims.channels);
        });
      },
      x, result->y);
}

void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads) {
  const Dims dims(params, x);
  const int64_t sample = dims.positions * dims.channels;
  WithElements(
      [&](const auto* from, const auto* gradient, auto* to) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          const float* s = stats.data<float>() + b * dims.groups * 2;
          float* sums = grads->sums.template data<float>() + b * dims.channels * 2;
          const Affine affine(dims, s, scale, bias);
          const auto* xs = from + b * sample;
          const auto* added = addend.defined()
                                  ? static_cast<decltype(xs)>(addend.raw_data()) + b * sample
                                  : nullptr;
          if (!params.silu) {
            InputGradOfSample(dims, xs, gradient + b * sample, s, scale, affine, added, sums,
                              to + b * sample);
            return;
          }
          const Tensor dz = Tensor::Empty(x.device(), {sample}, DType::kF32);
          BeforeSilu(xs, gradient + b * sample, affine.a.data(), affine.b.data(), dz.data<float>(),
                     dims.positions, dims.channels);
          InputGradOfSample(dims, xs, dz.data<float>(), s, scale, affine, added, sums,
                            to + b * sample);
        });
      },
      x, dy, grads->dx);
}

namespace {

// The vectors of one sample; `factor` is 1 + scale.
struct Vectors {
  const float* factor;
  const float* shift;
};

template <bool kSilu, typename T>
DPIPE_VECTOR_INLINE void ModulateRowsOf(const T* __restrict x, const Vectors& v, T* __restrict y,
                                        int64_t positions, int64_t channels) {
  const float* __restrict factor = v.factor;
  const float* __restrict shift = v.shift;
  for (int64_t p = 0; p < positions; ++p, x += channels, y += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float h = Load(x + c) * factor[c] + shift[c];
      Store(y + c, kSilu ? Silu(h) : h);
    }
  }
}

template <bool kSilu, typename T>
DPIPE_VECTOR_INLINE float GradOfModulated(const T* x, const Vectors& v, const T* dy, int64_t i,
                                          int64_t c) {
  const float grad = Load(dy + i);
  return kSilu ? grad * SiluGrad(Load(x + i) * v.factor[c] + v.shift[c]) : grad;
}

// Computes dx, and the sums of dh x and of dh over positions.
template <bool kSilu, typename T>
DPIPE_VECTOR_INLINE void ModulateGradRowsOf(const T* __restrict x, const Vectors& v,
                                            const T* __restrict dy, T* __restrict dx,
                                            int64_t positions, int64_t channels,
                                            double* const* sums) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = p * channels + c;
      Store(dx + i, GradOfModulated<kSilu>(x, v, dy, i, c) * v.factor[c]);
    }
  }
  const auto terms = [=](int64_t i, int64_t c, float* out) __attribute__((always_inline)) {
    const float dh = GradOfModulated<kSilu>(x, v, dy, i, c);
    out[0] = dh * Load(x + i);
    out[1] = dh;
  };
  SumOverPositions<2>(positions, channels, terms, sums);
}

}  // namespace

DPIPE_VECTOR_CLONES void ModulateRows(bool silu, const float* x, const Vectors& v, float* y,
                                      int64_t positions, int64_t channels) {
  silu ? ModulateRowsOf<true>(x, v, y, positions, channels)
       : ModulateRowsOf<false>(x, v, y, positions, channels);
}
DPIPE_VECTOR_CLONES void ModulateRows(bool silu, const Bf16* x, const Vectors& v, Bf16* y,
                                      int64_t positions, int64_t channels) {
  silu ? ModulateRowsOf<true>(x, v, y, positions, channels)
       : ModulateRowsOf<false>(x, v, y, positions, channels);
}
DPIPE_VECTOR_CLONES void ModulateGradRows(bool silu, const float* x, const Vectors& v,
                                          const float* dy, float* dx, int64_t positions,
                                          int64_t channels, double* const* sums) {
  silu ? ModulateGradRowsOf<true>(x, v, dy, dx, positions, channels, sums)
       : ModulateGradRowsOf<false>(x, v, dy, dx, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void ModulateGradRows(bool silu, const Bf16* x, const Vectors& v,
                                          const Bf16* dy, Bf16* dx, int64_t positions,
                                          int64_t channels, double* const* sums) {
  silu ? ModulateGradRowsOf<true>(x, v, dy, dx, positions, channels, sums)
       : ModulateGradRowsOf<false>(x, v, dy, dx, positions, channels, sums);
}

namespace {

// Calls f(sample, its vectors) for every sample.
template <typename T, typename F>
void ForEachSample(const Tensor& x, const T* v, const F& f) {
  const int64_t channels = x.dim(-1);
  ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
    std::vector<float> factor(channels), shift(channels);
    for (int64_t c = 0; c < channels; ++c) {
      factor[c] = 1.0f + Load(v + 2 * b * channels + c);
      shift[c] = Load(v + (2 * b + 1) * channels + c);
    }
    f(b, Vectors{factor.data(), shift.data()});
  });
}

}  // namespace

void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  WithElements(
      [&](const auto* px, const auto* pv, auto* py) {
        ForEachSample(x, pv, [&](int64_t b, const Vectors& vectors) {
          ModulateRows(silu, px + b * sample, vectors, py + b * sample, sample / channels,
                       channels);
        });
      },
      x, v, *y);
}

void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  WithElements(
      [&](const auto* px, const auto* pv, const auto* pdy, auto* pdx, auto* pdv) {
        ForEachSample(x, pv, [&](int64_t b, const Vectors& vectors) {
          std::vector<double> sums(2 * channels);
          double* const columns[] = {sums.data(), sums.data() + channels};
          ModulateGradRows(silu, px + b * sample, vectors, pdy + b * sample, pdx + b * sample,
                           sample / channels, channels, columns);
          for (int64_t c = 0; c < 2 * channels; ++c) {
            Store(pdv + 2 * b * channels + c, static_cast<float>(sums[c]));
          }
        });
      },
      x, v, dy, *dx, *dv);
}

}  // namespace dpipe::ops::cpu

namespace dpipe::ops {

const GroupNormKernels GroupNormKernels::kCpu = {cpu::GroupNormForward, cpu::GroupNormInputGrad,
                                                 cpu::ModulateForward, cpu::ModulateInputGrad};

}  // namespace dpipe::ops
