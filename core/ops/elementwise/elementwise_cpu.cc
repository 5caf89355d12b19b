#include <vector>

#include "core/ops/elementwise/elementwise_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"
#include "core/ops/support/curves.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/ops/support/vector_math.h"

namespace dpipe::ops::cpu {
namespace {

template <typename Fn, typename T>
DPIPE_VECTOR_INLINE void Map(const T* __restrict x, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(y + i, Fn::Value(Load(x + i)));
}

template <typename Fn, typename T>
DPIPE_VECTOR_INLINE void MapGrad(const T* __restrict x, const T* __restrict dy, T* __restrict dx,
                                 int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(dx + i, Load(dy + i) * Fn::Derivative(Load(x + i)));
}

template <typename T>
DPIPE_VECTOR_INLINE void ActivationOf(Activation activation, const T* x, T* y, int64_t n) {
  switch (activation) {
    case Activation::kSilu:
      return Map<SiluCurve<VectorMath>>(x, y, n);
    case Activation::kGelu:
      return Map<GeluCurve<VectorMath>>(x, y, n);
    case Activation::kGeluTanh:
      return Map<GeluTanhCurve<VectorMath>>(x, y, n);
    case Activation::kQuickGelu:
      return Map<QuickGeluCurve<VectorMath>>(x, y, n);
  }
}

template <typename T>
DPIPE_VECTOR_INLINE void ActivationGradOf(Activation activation, const T* x, const T* dy, T* dx,
                                          int64_t n) {
  switch (activation) {
    case Activation::kSilu:
      return MapGrad<SiluCurve<VectorMath>>(x, dy, dx, n);
    case Activation::kGelu:
      return MapGrad<GeluCurve<VectorMath>>(x, dy, dx, n);
    case Activation::kGeluTanh:
      return MapGrad<GeluTanhCurve<VectorMath>>(x, dy, dx, n);
    case Activation::kQuickGelu:
      return MapGrad<QuickGeluCurve<VectorMath>>(x, dy, dx, n);
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void ActivationRun(Activation a, const float* x, float* y, int64_t n) {
  ActivationOf(a, x, y, n);
}
DPIPE_VECTOR_CLONES void ActivationRun(Activation a, const Bf16* x, Bf16* y, int64_t n) {
  ActivationOf(a, x, y, n);
}
DPIPE_VECTOR_CLONES void ActivationGradRun(Activation a, const float* x, const float* dy, float* dx,
                                           int64_t n) {
  ActivationGradOf(a, x, dy, dx, n);
}
DPIPE_VECTOR_CLONES void ActivationGradRun(Activation a, const Bf16* x, const Bf16* dy, Bf16* dx,
                                           int64_t n) {
  ActivationGradOf(a, x, dy, dx, n);
}

void ActivationForward(Activation activation, const Tensor& x, Tensor* y) {
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
          ActivationRun(activation, from + begin, to + begin, end - begin);
        });
      },
      x, *y);
}

void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx) {
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
          ActivationGradRun(activation, in + begin, grad + begin, to + begin, end - begin);
        });
      },
      x, dy, *dx);
}

namespace {

template <typename T>
DPIPE_VECTOR_INLINE void GegluOf(const T* __restrict value, T* __restrict y, int64_t width) {
  const T* gate = value + width;
  for (int64_t i = 0; i < width; ++i) Store(y + i, Load(value + i) * Gelu(Load(gate + i)));
}

template <typename T>
DPIPE_VECTOR_INLINE void GegluGradOf(const T* __restrict value, const T* __restrict dy,
                                     T* __restrict dvalue, int64_t width) {
  const T* gate = value + width;
  T* dgate = dvalue + width;
  for (int64_t i = 0; i < width; ++i) {
    const float g = Load(gate + i), d = Load(dy + i);
    const float cdf = NormalCdf(g);
    Store(dvalue + i, d * (g * cdf));
    Store(dgate + i, d * Load(value + i) * (cdf + g * NormalPdf(g)));
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void GegluRow(const float* x, float* y, int64_t width) { GegluOf(x, y, width); }
DPIPE_VECTOR_CLONES void GegluRow(const Bf16* x, Bf16* y, int64_t width) { GegluOf(x, y, width); }
DPIPE_VECTOR_CLONES void GegluGradRow(const float* x, const float* dy, float* dx, int64_t width) {
  GegluGradOf(x, dy, dx, width);
}
DPIPE_VECTOR_CLONES void GegluGradRow(const Bf16* x, const Bf16* dy, Bf16* dx, int64_t width) {
  GegluGradOf(x, dy, dx, width);
}

void GegluForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(-1);
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), y->num_elements() / width, [&](int64_t row) {
          GegluRow(from + row * 2 * width, to + row * width, width);
        });
      },
      x, *y);
}

void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(-1);
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        ParallelFor(*x.device(), dy.num_elements() / width, [&](int64_t row) {
          GegluGradRow(in + row * 2 * width, grad + row * width, to + row * 2 * width, width);
        });
      },
      x, dy, *dx);
}

namespace {

template <typename T>
DPIPE_VECTOR_INLINE void AddOf(const T* __restrict a, const T* __restrict b, T* __restrict y,
                               int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(y + i, Load(a + i) + Load(b + i));
}

template <typename T>
DPIPE_VECTOR_INLINE void ScaleOf(float factor, const T* __restrict x, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(y + i, factor * Load(x + i));
}

template <typename T, typename U>
DPIPE_VECTOR_INLINE void AxpyOf(float factor, const T* __restrict x, U* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(y + i, Load(y + i) + factor * Load(x + i));
}

template <typename T>
DPIPE_VECTOR_INLINE void ColumnSums(const T* x, int64_t positions, int64_t channels,
                                    double* const* sums) {
  const auto term = [x](int64_t i, int64_t, float* out) __attribute__((always_inline)) {
    out[0] = Load(x + i);
  };
  SumOverPositions<1>(positions, channels, term, sums);
}

}  // namespace

DPIPE_VECTOR_CLONES void AddRun(const float* a, const float* b, float* y, int64_t n) {
  AddOf(a, b, y, n);
}
DPIPE_VECTOR_CLONES void AddRun(const Bf16* a, const Bf16* b, Bf16* y, int64_t n) {
  AddOf(a, b, y, n);
}
DPIPE_VECTOR_CLONES void ScaleRun(float factor, const float* x, float* y, int64_t n) {
  ScaleOf(factor, x, y, n);
}
DPIPE_VECTOR_CLONES void ScaleRun(float factor, const Bf16* x, Bf16* y, int64_t n) {
  ScaleOf(factor, x, y, n);
}
DPIPE_VECTOR_CLONES void AxpyRun(float factor, const float* x, float* y, int64_t n) {
  AxpyOf(factor, x, y, n);
}
DPIPE_VECTOR_CLONES void AxpyRun(float factor, const Bf16* x, float* y, int64_t n) {
  AxpyOf(factor, x, y, n);
}
DPIPE_VECTOR_CLONES void AxpyRun(float factor, const Bf16* x, Bf16* y, int64_t n) {
  AxpyOf(factor, x, y, n);
}
DPIPE_VECTOR_CLONES void ColumnSumsRun(const float* x, int64_t positions, int64_t channels,
                                       double* const* sums) {
  ColumnSums(x, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void ColumnSumsRun(const Bf16* x, int64_t positions, int64_t channels,
                                       double* const* sums) {
  ColumnSums(x, positions, channels, sums);
}

void Add(const Tensor& a, const Tensor& b, Tensor* y) {
  WithElements(
      [&](const auto* pa, const auto* pb, auto* py) {
        ParallelRuns(*a.device(), a.num_elements(), [&](int64_t begin, int64_t end) {
          AddRun(pa + begin, pb + begin, py + begin, end - begin);
        });
      },
      a, b, *y);
}

void AddChannels(const Tensor& x, const Tensor& v, Tensor* y) {
  const int64_t channels = v.dim(1);
  const int64_t positions = x.num_elements() / v.num_elements();
  WithElements(
      [&](const auto* px, const auto* pv, auto* py) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          for (int64_t p = b * positions; p < (b + 1) * positions; ++p) {
            AddRun(px + p * channels, pv + b * channels, py + p * channels, channels);
          }
        });
      },
      x, v, *y);
}

void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv) {
  const int64_t channels = dv->dim(1);
  const int64_t positions = dy.num_elements() / dv->num_elements();
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*dy.device(), dy.dim(0), [&](int64_t b) {
          std::vector<double> sums(channels);
          double* const columns[] = {sums.data()};
          ColumnSumsRun(from + b * positions * channels, positions, channels, columns);
          for (int64_t c = 0; c < channels; ++c) {
            Store(to + b * channels + c, static_cast<float>(sums[c]));
          }
        });
      },
      dy, *dv);
}

void Scale(float factor, const Tensor& x, Tensor* y) {
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
          ScaleRun(factor, from + begin, to + begin, end - begin);
        });
      },
      x, *y);
}

void Axpy(float factor, const Tensor& x, Tensor* y) {
  const auto run = [&](const auto* from, auto* to) {
    ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
      AxpyRun(factor, from + begin, to + begin, end - begin);
    });
  };
  if (x.dtype() == y->dtype()) {
    WithElements(run, x, *y);
  } else {
    run(x.data<Bf16>(), y->data<float>());
  }
}

namespace {

template <typename T>
DPIPE_VECTOR_INLINE void GatedRowsOf(const T* __restrict x, const float* __restrict gate,
                                     const T* __restrict h, T* __restrict y, int64_t positions,
                                     int64_t channels) {
  for (int64_t p = 0; p < positions; ++p, x += channels, h += channels, y += channels) {
    for (int64_t c = 0; c < channels; ++c) Store(y + c, Load(x + c) + gate[c] * Load(h + c));
  }
}

// Computes dh, and the sums of dy h over positions.
template <typename T>
DPIPE_VECTOR_INLINE void GatedGradRowsOf(const float* __restrict gate, const T* __restrict h,
                                         const T* __restrict dy, T* __restrict dh,
                                         int64_t positions, int64_t channels, double* const* sums) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      Store(dh + p * channels + c, Load(dy + p * channels + c) * gate[c]);
    }
  }
  const auto term = [=](int64_t i, int64_t, float* out) __attribute__((always_inline)) {
    out[0] = Load(dy + i) * Load(h + i);
  };
  SumOverPositions<1>(positions, channels, term, sums);
}

}  // namespace

DPIPE_VECTOR_CLONES void GatedRows(const float* x, const float* gate, const float* h, float* y,
                                   int64_t positions, int64_t channels) {
  GatedRowsOf(x, gate, h, y, positions, channels);
}
DPIPE_VECTOR_CLONES void GatedRows(const Bf16* x, const float* gate, const Bf16* h, Bf16* y,
                                   int64_t positions, int64_t channels) {
  GatedRowsOf(x, gate, h, y, positions, channels);
}
DPIPE_VECTOR_CLONES void GatedGradRows(const float* gate, const float* h, const float* dy,
                                       float* dh, int64_t positions, int64_t channels,
                                       double* const* sums) {
  GatedGradRowsOf(gate, h, dy, dh, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void GatedGradRows(const float* gate, const Bf16* h, const Bf16* dy, Bf16* dh,
                                       int64_t positions, int64_t channels, double* const* sums) {
  GatedGradRowsOf(gate, h, dy, dh, positions, channels, sums);
}

namespace {

template <typename T>
std::vector<float> GateOfSample(const T* gate, int64_t b, int64_t channels) {
  std::vector<float> values(channels);
  for (int64_t c = 0; c < channels; ++c) values[c] = Load(gate + b * channels + c);
  return values;
}

}  // namespace

void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  WithElements(
      [&](const auto* px, const auto* pg, const auto* ph, auto* py) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          const std::vector<float> values = GateOfSample(pg, b, channels);
          GatedRows(px + b * sample, values.data(), ph + b * sample, py + b * sample,
                    sample / channels, channels);
        });
      },
      x, gate, h, *y);
}

void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy,
                       GatedAddGrads* grads) {
  const int64_t channels = h.dim(-1), sample = h.num_elements() / h.dim(0);
  WithElements(
      [&](const auto* pg, const auto* ph, const auto* pdy, auto* pdg, auto* pdh) {
        ParallelFor(*h.device(), h.dim(0), [&](int64_t b) {
          const std::vector<float> values = GateOfSample(pg, b, channels);
          std::vector<double> sums(channels);
          double* const columns[] = {sums.data()};
          GatedGradRows(values.data(), ph + b * sample, pdy + b * sample, pdh + b * sample,
                        sample / channels, channels, columns);
          for (int64_t c = 0; c < channels; ++c) {
            Store(pdg + b * channels + c, static_cast<float>(sums[c]));
          }
        });
      },
      gate, h, dy, grads->dgate, grads->dh);
}

namespace {

template <typename T>
DPIPE_VECTOR_INLINE void MultiplyOf(const T* __restrict a, const T* __restrict b, T* __restrict y,
                                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(y + i, Load(a + i) * Load(b + i));
}

}  // namespace

DPIPE_VECTOR_CLONES void MultiplyRun(const float* a, const float* b, float* y, int64_t n) {
  MultiplyOf(a, b, y, n);
}
DPIPE_VECTOR_CLONES void MultiplyRun(const Bf16* a, const Bf16* b, Bf16* y, int64_t n) {
  MultiplyOf(a, b, y, n);
}

void Multiply(const Tensor& a, const Tensor& b, Tensor* y) {
  WithElements(
      [&](const auto* pa, const auto* pb, auto* py) {
        ParallelRuns(*a.device(), a.num_elements(), [&](int64_t begin, int64_t end) {
          MultiplyRun(pa + begin, pb + begin, py + begin, end - begin);
        });
      },
      a, b, *y);
}

}  // namespace dpipe::ops::cpu

namespace dpipe::ops {

const ElementwiseKernels ElementwiseKernels::kCpu = {cpu::ActivationForward,
                                                     cpu::ActivationInputGrad,
                                                     cpu::GegluForward,
                                                     cpu::GegluInputGrad,
                                                     cpu::Add,
                                                     cpu::AddChannels,
                                                     cpu::AddChannelsVectorGrad,
                                                     cpu::Scale,
                                                     cpu::Axpy,
                                                     cpu::GatedAddForward,
                                                     cpu::GatedAddInputGrad,
                                                     cpu::Multiply};

}  // namespace dpipe::ops
