#include <vector>

#include "core/ops/norm/modulate_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/ops/support/vector_math.h"

namespace dpipe::ops::cpu {
namespace {

// The vectors of one sample; `factor` is 1 + scale.
struct Vectors {
  const float* factor;
  const float* shift;
};

template <bool kSilu, typename T>
DPIPE_VECTOR_INLINE void Rows(const T* __restrict x, const Vectors& v, T* __restrict y,
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
DPIPE_VECTOR_INLINE void GradRows(const T* __restrict x, const Vectors& v, const T* __restrict dy,
                                  T* __restrict dx, int64_t positions, int64_t channels,
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
  silu ? Rows<true>(x, v, y, positions, channels) : Rows<false>(x, v, y, positions, channels);
}
DPIPE_VECTOR_CLONES void ModulateRows(bool silu, const Bf16* x, const Vectors& v, Bf16* y,
                                      int64_t positions, int64_t channels) {
  silu ? Rows<true>(x, v, y, positions, channels) : Rows<false>(x, v, y, positions, channels);
}
DPIPE_VECTOR_CLONES void ModulateGradRows(bool silu, const float* x, const Vectors& v,
                                          const float* dy, float* dx, int64_t positions,
                                          int64_t channels, double* const* sums) {
  silu ? GradRows<true>(x, v, dy, dx, positions, channels, sums)
       : GradRows<false>(x, v, dy, dx, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void ModulateGradRows(bool silu, const Bf16* x, const Vectors& v,
                                          const Bf16* dy, Bf16* dx, int64_t positions,
                                          int64_t channels, double* const* sums) {
  silu ? GradRows<true>(x, v, dy, dx, positions, channels, sums)
       : GradRows<false>(x, v, dy, dx, positions, channels, sums);
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
