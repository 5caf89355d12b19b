#include "core/ops/optimizer/many_tensors_kernels.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {

DPIPE_VECTOR_CLONES void AxpbyRun(float a, float b, const float* __restrict x, float* __restrict y,
                                  int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = b * y[i] + a * x[i];
}

void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  for (const AxpbyPair& pair : pairs) {
    const float* x = pair.x.data<float>();
    float* y = pair.y.data<float>();
    ParallelRuns(*pair.y.device(), pair.y.num_elements(), [&](int64_t begin, int64_t end) {
      AxpbyRun(a, b, x + begin, y + begin, end - begin);
    });
  }
}

}  // namespace dpipe::ops::cpu
