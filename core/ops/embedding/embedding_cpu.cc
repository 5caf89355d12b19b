#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

template <typename T>
DPIPE_VECTOR_INLINE void SumOf(const float* __restrict a, const float* __restrict b,
                               T* __restrict y, int64_t n) {
  if (b == nullptr) {
    for (int64_t i = 0; i < n; ++i) Store(y + i, a[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) Store(y + i, a[i] + b[i]);
  }
}

template <typename T>
DPIPE_VECTOR_INLINE void AddOf(const T* __restrict dy, float* __restrict row, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] += Load(dy + i);
}

}  // namespace

// y = a + b; b may be null.
DPIPE_VECTOR_CLONES void EmbeddingRow(const float* a, const float* b, float* y, int64_t n) {
  SumOf(a, b, y, n);
}
DPIPE_VECTOR_CLONES void EmbeddingRow(const float* a, const float* b, Bf16* y, int64_t n) {
  SumOf(a, b, y, n);
}
DPIPE_VECTOR_CLONES void EmbeddingAddRow(const float* dy, float* row, int64_t n) {
  AddOf(dy, row, n);
}
DPIPE_VECTOR_CLONES void EmbeddingAddRow(const Bf16* dy, float* row, int64_t n) {
  AddOf(dy, row, n);
}

void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y) {
  const int64_t tokens = ids.dim(1), channels = table.dim(1);
  WithElements(
      [&](auto* to) {
        ParallelFor(*table.device(), ids.num_elements(), [&](int64_t token) {
          const float* position =
              positions.defined() ? positions.data<float>() + token % tokens * channels : nullptr;
          EmbeddingRow(table.data<float>() + ids.data<int32_t>()[token] * channels, position,
                       to + token * channels, channels);
        });
      },
      *y);
}

// Single-threaded: rows of the table may repeat, and their order of addition is part of the
// contract.
void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions) {
  const int64_t tokens = ids.dim(1), channels = dy.dim(2);
  WithElements(
      [&](const auto* from) {
        for (int64_t token = 0; token < ids.num_elements(); ++token, from += channels) {
          if (dtable != nullptr) {
            float* row = dtable->data<float>() + ids.data<int32_t>()[token] * channels;
            EmbeddingAddRow(from, row, channels);
          }
          if (dpositions != nullptr) {
            float* row = dpositions->data<float>() + token % tokens * channels;
            EmbeddingAddRow(from, row, channels);
          }
        }
      },
      dy);
}

}  // namespace dpipe::ops::cpu
