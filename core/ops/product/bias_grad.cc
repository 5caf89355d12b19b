#include "core/ops/product/bias_grad.h"

#include <vector>

#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"

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

void AddOnGpu(const Tensor& dy, Tensor* db) {
  const WorkScope scope("bias's gradient");
  const cuda::ChannelsLast rows = {1, dy.num_elements() / dy.dim(-1), dy.dim(-1)};
  const Tensor run_sums = cuda::Workspace(dy, cuda::RunSumsSize(rows, 1));
  WithElements(
      [&](const auto* from) {
        cuda::AddRows(cuda::StreamOf(dy), rows, from, run_sums.data<float>(), db->data<float>());
      },
      dy);
}

}  // namespace

void AddBiasGrad(const Tensor& dy, Tensor* db) {
  const int64_t columns = dy.dim(-1), rows = dy.num_elements() / columns;
  CheckFp32(*db, {columns});
  if (dy.device()->kind() == DeviceKind::kCuda) return AddOnGpu(dy, db);
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
