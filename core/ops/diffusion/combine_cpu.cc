#include "core/ops/diffusion/combine_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

template <typename X, typename Y, typename Z>
DPIPE_VECTOR_INLINE void CombineOf(float a, const X* __restrict x, float b, const Y* __restrict y,
                                   Z* __restrict z, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(z + i, a * Load(x + i) + b * Load(y + i));
}

// Calls f with each tensor's typed pointer, for any mixture of fp32 and bf16.
template <typename F>
void WithPointer(const Tensor& t, const F& f) {
  if (t.dtype() == DType::kF32) {
    f(t.data<float>());
  } else {
    f(t.data<Bf16>());
  }
}

}  // namespace

DPIPE_VECTOR_CLONES void CombineRun(float a, const float* x, float b, const float* y, float* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const float* x, float b, const float* y, Bf16* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const float* x, float b, const Bf16* y, float* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const float* x, float b, const Bf16* y, Bf16* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const Bf16* x, float b, const float* y, float* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const Bf16* x, float b, const float* y, Bf16* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const Bf16* x, float b, const Bf16* y, float* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}
DPIPE_VECTOR_CLONES void CombineRun(float a, const Bf16* x, float b, const Bf16* y, Bf16* z,
                                    int64_t n) {
  CombineOf(a, x, b, y, z, n);
}

void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z) {
  const int64_t n = x.num_elements() / x.dim(0);
  WithPointer(x, [&](const auto* px) {
    WithPointer(y, [&](const auto* py) {
      WithPointer(*z, [&](auto* pz) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          CombineRun(x_weights[b], px + b * n, y_weights[b], py + b * n, pz + b * n, n);
        });
      });
    });
  });
}

}  // namespace dpipe::ops::cpu
