#include <vector>

#include "core/ops/elementwise/add_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
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

}  // namespace dpipe::ops::cpu
