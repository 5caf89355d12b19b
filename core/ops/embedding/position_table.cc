#include "core/ops/embedding/position_table.h"

#include <cmath>
#include <vector>

#include "core/ops/cuda/kernels/positions.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {
namespace {

// Returns sinusoids [count, 2 * quarter] of adjacent positions.
std::vector<float> Sinusoids(const cuda::PositionGrid& grid, int64_t first, int64_t count) {
  std::vector<float> values;
  values.reserve(count * 2 * grid.quarter);
  for (int64_t i = first; i < first + count; ++i) {
    // In fp32, as diffusers.
    const double position = static_cast<float>(i) / grid.tokens_per_position;
    for (const bool cosine : {false, true}) {
      for (int64_t k = 0; k < grid.quarter; ++k) {
        const double angle = position * std::exp(grid.log_rate * static_cast<double>(k));
        values.push_back(static_cast<float>(cosine ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  return values;
}

// Serves every host device: rows + columns times C/2 sinusoids, and a sum.
void AddOnHost(const cuda::PositionGrid& grid, const Tensor& x, const Tensor& y) {
  const std::vector<float> of_columns = Sinusoids(grid, grid.left, grid.columns);
  const std::vector<float> of_rows = Sinusoids(grid, grid.top, grid.rows);
  const int64_t half = 2 * grid.quarter, tokens = grid.rows * grid.columns;
  WithElements(
      [&](const auto* from, auto* to) {
        ParallelFor(*x.device(), x.dim(0) * grid.rows, [&](int64_t i) {
          const float* const of_row = of_rows.data() + i % grid.rows * half;
          for (int64_t column = 0; column < grid.columns; ++column) {
            const int64_t token = i / grid.rows * tokens + i % grid.rows * grid.columns + column;
            const float* const of_column = of_columns.data() + column * half;
            const auto* const read = from + token * 2 * half;
            auto* const written = to + token * 2 * half;
            for (int64_t k = 0; k < half; ++k) {
              Store(written + k, Load(read + k) + of_column[k]);
              Store(written + half + k, Load(read + half + k) + of_row[k]);
            }
          }
        });
      },
      x, y);
}

}  // namespace

absl::StatusOr<Tensor> AddPositionTable(const PositionTableParams& params, const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 3) << x.shape();
  DPIPE_CHECK_EQ(x.dim(1), params.rows * params.columns) << x.shape();
  DPIPE_CHECK_EQ(x.dim(2) % 4, 0) << x.shape();
  DPIPE_CHECK(params.rows <= params.table_size && params.columns <= params.table_size)
      << params.rows << " x " << params.columns << " tokens of a table of " << params.table_size;
  const cuda::PositionGrid grid = {
      x.dim(0),
      params.rows,
      params.columns,
      (params.table_size - params.rows) / 2,
      (params.table_size - params.columns) / 2,
      x.dim(2) / 4,
      static_cast<float>(static_cast<double>(params.table_size) /
                         static_cast<double>(params.base_size)),
      -std::log(10000.0) / static_cast<double>(x.dim(2) / 4),
  };
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  const auto add = [&] { AddOnHost(grid, x, y); };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "position_table", add, add, [&] {
    WithElements(
        [&](const auto* from, auto* to) { cuda::AddPositions(cuda::StreamOf(x), grid, from, to); },
        x, y);
  }));
  return y;
}

}  // namespace dpipe::ops
