#include "core/ops/elementwise/activation_kernels.h"
#include "core/ops/support/backend.h"
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
DPIPE_VECTOR_INLINE void ForwardOf(Activation activation, const T* x, T* y, int64_t n) {
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
DPIPE_VECTOR_INLINE void GradOf(Activation activation, const T* x, const T* dy, T* dx, int64_t n) {
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

DPIPE_VECTOR_CLONES void ForwardRun(Activation a, const float* x, float* y, int64_t n) {
  ForwardOf(a, x, y, n);
}
DPIPE_VECTOR_CLONES void ForwardRun(Activation a, const Bf16* x, Bf16* y, int64_t n) {
  ForwardOf(a, x, y, n);
}
DPIPE_VECTOR_CLONES void GradRun(Activation a, const float* x, const float* dy, float* dx,
                                 int64_t n) {
  GradOf(a, x, dy, dx, n);
}
DPIPE_VECTOR_CLONES void GradRun(Activation a, const Bf16* x, const Bf16* dy, Bf16* dx, int64_t n) {
  GradOf(a, x, dy, dx, n);
}

void ActivationForward(Activation activation, const Tensor& x, Tensor* y) {
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
          ForwardRun(activation, from + begin, to + begin, end - begin);
        });
      },
      x, *y);
}

void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx) {
  WithElements(
      [&](const auto* in, const auto* grad, auto* to) {
        ParallelRuns(*x.device(), x.num_elements(), [&](int64_t begin, int64_t end) {
          GradRun(activation, in + begin, grad + begin, to + begin, end - begin);
        });
      },
      x, dy, *dx);
}

}  // namespace dpipe::ops::cpu
