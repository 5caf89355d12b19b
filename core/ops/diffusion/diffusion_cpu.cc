#include <algorithm>
#include <type_traits>

#include "core/ops/diffusion/diffusion_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/row_sum.h"
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

namespace {

// fp32 over runs of 1024 elements, double over the runs.
template <typename P, typename Q>
DPIPE_VECTOR_INLINE double SumOf(const P* p, const Q* q, int64_t n) {
  constexpr int64_t kRun = 1024;
  double sum = 0;
  for (int64_t i = 0; i < n; i += kRun) {
    sum += RowSum(
        std::min(kRun, n - i), [=](int64_t j) __attribute__((always_inline)) {
          const float d = Load(p + i + j) - Load(q + i + j);
          return d * d;
        });
  }
  return sum;
}

template <typename P, typename Q>
DPIPE_VECTOR_INLINE void ErrorOf(float factor, const P* __restrict p, const Q* __restrict q,
                                 P* __restrict dp, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(dp + i, factor * (Load(p + i) - Load(q + i)));
}

template <typename F>
void WithPointers(const Tensor& a, const Tensor& b, const F& f) {
  const auto with_a = [&](const auto* pa) {
    if (b.dtype() == DType::kF32) {
      f(pa, b.data<float>());
    } else {
      f(pa, b.data<Bf16>());
    }
  };
  WithElements(with_a, a);
}

}  // namespace

DPIPE_VECTOR_CLONES double ErrorSum(const float* p, const float* q, int64_t n) {
  return SumOf(p, q, n);
}
DPIPE_VECTOR_CLONES double ErrorSum(const float* p, const Bf16* q, int64_t n) {
  return SumOf(p, q, n);
}
DPIPE_VECTOR_CLONES double ErrorSum(const Bf16* p, const float* q, int64_t n) {
  return SumOf(p, q, n);
}
DPIPE_VECTOR_CLONES double ErrorSum(const Bf16* p, const Bf16* q, int64_t n) {
  return SumOf(p, q, n);
}
DPIPE_VECTOR_CLONES void ErrorRun(float factor, const float* p, const float* q, float* dp,
                                  int64_t n) {
  ErrorOf(factor, p, q, dp, n);
}
DPIPE_VECTOR_CLONES void ErrorRun(float factor, const float* p, const Bf16* q, float* dp,
                                  int64_t n) {
  ErrorOf(factor, p, q, dp, n);
}
DPIPE_VECTOR_CLONES void ErrorRun(float factor, const Bf16* p, const float* q, Bf16* dp,
                                  int64_t n) {
  ErrorOf(factor, p, q, dp, n);
}
DPIPE_VECTOR_CLONES void ErrorRun(float factor, const Bf16* p, const Bf16* q, Bf16* dp, int64_t n) {
  ErrorOf(factor, p, q, dp, n);
}

void SquaredError(const Tensor& prediction, const Tensor& target,
                  const std::vector<double>& factors, Tensor* loss) {
  const int64_t n = prediction.num_elements() / prediction.dim(0);
  WithPointers(prediction, target, [&](const auto* p, const auto* q) {
    ParallelFor(*prediction.device(), prediction.dim(0), [&](int64_t b) {
      loss->data<float>()[b] = static_cast<float>(factors[b] * ErrorSum(p + b * n, q + b * n, n));
    });
  });
}

void ScaledError(const Tensor& prediction, const Tensor& target, const std::vector<double>& factors,
                 Tensor* dp) {
  const int64_t n = prediction.num_elements() / prediction.dim(0);
  WithPointers(prediction, target, [&](auto* p, const auto* q) {
    auto* out =
        static_cast<std::remove_const_t<std::remove_pointer_t<decltype(p)>>*>(dp->raw_data());
    ParallelFor(*prediction.device(), prediction.dim(0), [&](int64_t b) {
      ErrorRun(static_cast<float>(factors[b]), p + b * n, q + b * n, out + b * n, n);
    });
  });
}

void CombineSamples(const Tensor& x_weights, const Tensor& x, const Tensor& y_weights,
                    const Tensor& y, Tensor* z) {
  CombineSamples(x_weights.span<float>(), x, y_weights.span<float>(), y, z);
}

void MseLossForward(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                    Tensor* loss) {
  SquaredError(prediction, target, MseFactors(prediction, weights), loss);
}

void MseLossInputGrad(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                      const Tensor& d_loss, Tensor* dp) {
  ScaledError(prediction, target, MseGradFactors(prediction, weights, d_loss), dp);
}

}  // namespace dpipe::ops::cpu

namespace dpipe::ops {

const DiffusionKernels DiffusionKernels::kCpu = {cpu::CombineSamples, cpu::CombineSamples,
                                                 cpu::MseLossForward, cpu::MseLossInputGrad};

}  // namespace dpipe::ops
