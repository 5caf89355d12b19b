#include "core/ops/adamw_kernels.h"
#include "core/ops/backend.h"
#include "core/ops/parallel.h"
#include "core/ops/row_sum.h"
#include "core/ops/vector_clones.h"

namespace dpipe::ops::cpu {

DPIPE_VECTOR_CLONES void AdamWRun(AdamWFactors f, const float* __restrict grad,
                                  float* __restrict parameter, float* __restrict m,
                                  float* __restrict v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = f.grad_scale * grad[i];
    const float mi = m[i] + f.one_minus_beta1 * (g - m[i]);
    const float vi = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    const float denominator = __builtin_sqrtf(vi) * f.inverse_sqrt_bias2 + f.eps;
    m[i] = mi;
    v[i] = vi;
    parameter[i] = f.decay * parameter[i] - f.step_size * (mi / denominator);
  }
}

// Squares of floats are exact in double. 16 partial sums, added pairwise.
DPIPE_VECTOR_CLONES double SquaresRun(const float* x, int64_t n) {
  constexpr int kLanes = 16;
  double partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) partial[j] += double{x[i + j]} * double{x[i + j]};
  }
  for (int j = 0; i + j < n; ++j) partial[j] += double{x[i + j]} * double{x[i + j]};
  return FoldPairs<kLanes / 2>(partial);
}

DPIPE_VECTOR_CLONES void EmaRun(float decay, float rest, const float* __restrict value,
                                float* __restrict average, int64_t n) {
  for (int64_t i = 0; i < n; ++i) average[i] = decay * average[i] + rest * value[i];
}

void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v) {
  ParallelRuns(*grad.device(), grad.num_elements(), [&](int64_t begin, int64_t end) {
    AdamWRun(factors, grad.data<float>() + begin, parameter->data<float>() + begin,
             m->data<float>() + begin, v->data<float>() + begin, end - begin);
  });
}

double SumOfSquares(const Tensor& x) { return SquaresRun(x.data<float>(), x.num_elements()); }

void EmaUpdate(float decay, const Tensor& value, Tensor* average) {
  const float rest = static_cast<float>(1.0 - double{decay});
  ParallelRuns(*value.device(), value.num_elements(), [&](int64_t begin, int64_t end) {
    EmaRun(decay, rest, value.data<float>() + begin, average->data<float>() + begin, end - begin);
  });
}

}  // namespace dpipe::ops::cpu
