#include "core/ops/elementwise/multiply_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
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
