#include "core/ops/bias_grad.h"

#include <vector>

#include "core/ops/backend.h"
#include "core/ops/channel_sums.h"

namespace dpipe::ops {
namespace {

DPIPE_VECTOR_CLONES void ColumnSums(int64_t rows, int64_t columns, const float* dy, double* sums) {
  const auto term = [&](int64_t i, int64_t, float* out) __attribute__((always_inline)) {
    out[0] = Load(dy + i);
  };
  SumOverPositions<1>(rows, columns, term, &sums);
}

DPIPE_VECTOR_CLONES void ColumnSumsBf16(int64_t rows, int64_t columns, const Bf16* dy,
                                        double* sums) {
  const auto term = [&](int64_t i, int64_t, float* out) __attribute__((always_inline)) {
    out[0] = Load(dy + i);
  };
  SumOverPositions<1>(rows, columns, term, &sums);
}

}  // namespace

void AddBiasGrad(const Tensor& dy, Tensor* db) {
  const int64_t columns = dy.dim(-1), rows = dy.num_elements() / columns;
  CheckFp32(*db, {columns});
  std::vector<double> sums(columns, 0.0);
  if (dy.dtype() == DType::kF32) {
    ColumnSums(rows, columns, dy.data<float>(), sums.data());
  } else {
    ColumnSumsBf16(rows, columns, dy.data<Bf16>(), sums.data());
  }
  float* out = db->data<float>();
  for (int64_t c = 0; c < columns; ++c) out[c] = static_cast<float>(out[c] + sums[c]);
}

}  // namespace dpipe::ops
