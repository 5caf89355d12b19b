#include <algorithm>
#include <cmath>
#include <vector>

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

namespace {

template <typename T>
DPIPE_VECTOR_INLINE void RotateHeads(const T* __restrict x, const float* __restrict cosines,
                                     const float* __restrict sines, T* __restrict y, int64_t heads,
                                     int64_t pairs) {
  for (int64_t h = 0; h < heads; ++h, x += 2 * pairs, y += 2 * pairs) {
    for (int64_t p = 0; p < pairs; ++p) {
      const float first = Load(x + 2 * p), second = Load(x + 2 * p + 1);
      Store(y + 2 * p, first * cosines[p] - second * sines[p]);
      Store(y + 2 * p + 1, second * cosines[p] + first * sines[p]);
    }
  }
}

// Sines and cosines [positions, pairs] of an axis.
struct AxisTable {
  AxisTable(int64_t positions, int64_t pairs, double theta, bool inverse)
      : cosines(positions * pairs), sines(positions * pairs), pairs(pairs) {
    for (int64_t i = 0; i < positions * pairs; ++i) {
      const double angle =
          i / pairs * std::pow(theta, -static_cast<double>(i % pairs) / static_cast<double>(pairs));
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(inverse ? -std::sin(angle) : std::sin(angle));
    }
  }
  void Copy(int64_t position, float* to_cosines, float* to_sines) const {
    std::copy_n(cosines.data() + position * pairs, pairs, to_cosines);
    std::copy_n(sines.data() + position * pairs, pairs, to_sines);
  }

  std::vector<float> cosines, sines;
  const int64_t pairs;
};

}  // namespace

DPIPE_VECTOR_CLONES void RotateToken(const float* x, const float* cosines, const float* sines,
                                     float* y, int64_t heads, int64_t pairs) {
  RotateHeads(x, cosines, sines, y, heads, pairs);
}
DPIPE_VECTOR_CLONES void RotateToken(const Bf16* x, const float* cosines, const float* sines,
                                     Bf16* y, int64_t heads, int64_t pairs) {
  RotateHeads(x, cosines, sines, y, heads, pairs);
}

void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y) {
  const int64_t tokens = x.dim(1), width = x.dim(2), pairs = params.head_size() / 2;
  const int64_t columns = params.image_columns;
  const int64_t rows = (tokens - params.text_tokens + columns - 1) / columns;
  const AxisTable of_rows(rows, params.axes[1] / 2, params.theta, inverse);
  const AxisTable of_columns(columns, params.axes[2] / 2, params.theta, inverse);
  const int64_t row_begin = params.axes[0] / 2, column_begin = row_begin + of_rows.pairs;
  constexpr int64_t kTokensPerPiece = 16;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), (x.dim(0) * tokens + kTokensPerPiece - 1) / kTokensPerPiece,
                    [&](int64_t piece) {
                      // Pairs of the first axis, whose ids are 0, keep these values.
                      std::vector<float> cosines(pairs, 1.0f), sines(pairs, 0.0f);
                      const std::vector<float> ones = cosines, zeros = sines;
                      const int64_t end =
                          std::min(x.dim(0) * tokens, (piece + 1) * kTokensPerPiece);
                      for (int64_t i = piece * kTokensPerPiece; i < end; ++i) {
                        const int64_t image = i % tokens - params.text_tokens;
                        if (image >= 0) {
                          of_rows.Copy(image / columns, cosines.data() + row_begin,
                                       sines.data() + row_begin);
                          of_columns.Copy(image % columns, cosines.data() + column_begin,
                                          sines.data() + column_begin);
                        }
                        const bool turns = image >= 0;
                        RotateToken(from + i * width, (turns ? cosines : ones).data(),
                                    (turns ? sines : zeros).data(), to + i * width,
                                    width / (2 * pairs), pairs);
                      }
                    });
      },
      x, *y);
}

}  // namespace dpipe::ops::cpu

namespace dpipe::ops {

const EmbeddingKernels EmbeddingKernels::kCpu = {cpu::EmbeddingForward, cpu::EmbeddingWeightGrad,
                                                 cpu::RotaryEmbedding};

}  // namespace dpipe::ops
