#include "core/ops/elementwise/geglu_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/ops/support/vector_math.h"

namespace dpipe::ops::cpu {
namespace {

template <typename T>
DPIPE_VECTOR_INLINE void Forward(const T* __restrict value, T* __restrict y, int64_t width) {
  const T* gate = value + width;
  for (int64_t i = 0; i < width; ++i) Store(y + i, Load(value + i) * Gelu(Load(gate + i)));
}

template <typename T>
DPIPE_VECTOR_INLINE void Grad(const T* __restrict value, const T* __restrict dy,
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

DPIPE_VECTOR_CLONES void GegluRow(const float* x, float* y, int64_t width) { Forward(x, y, width); }
DPIPE_VECTOR_CLONES void GegluRow(const Bf16* x, Bf16* y, int64_t width) { Forward(x, y, width); }
DPIPE_VECTOR_CLONES void GegluGradRow(const float* x, const float* dy, float* dx, int64_t width) {
  Grad(x, dy, dx, width);
}
DPIPE_VECTOR_CLONES void GegluGradRow(const Bf16* x, const Bf16* dy, Bf16* dx, int64_t width) {
  Grad(x, dy, dx, width);
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

}  // namespace dpipe::ops::cpu
