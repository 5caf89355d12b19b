#include "core/ops/embedding/positions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/cuda/kernels/embedding.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {
namespace {

absl::StatusOr<Tensor> Rotated(const RotaryParams& params, bool inverse, const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 3) << x.shape();
  for (int64_t axis : params.axes) DPIPE_CHECK(axis >= 0 && axis % 2 == 0) << "axis of " << axis;
  DPIPE_CHECK(params.head_size() > 0 && x.dim(2) % params.head_size() == 0)
      << x.shape() << " with heads of " << params.head_size();
  DPIPE_CHECK(params.text_tokens >= 0 && params.text_tokens <= x.dim(1))
      << params.text_tokens << " text tokens of " << x.shape();
  DPIPE_CHECK_GT(params.image_columns, 0);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), inverse ? "rotary_embedding's input gradient" : "rotary_embedding",
                &EmbeddingKernels::rotary_embedding, params, inverse, x, &y));
  return y;
}

}  // namespace

absl::StatusOr<Tensor> RotaryEmbeddingForward(const RotaryParams& params, const Tensor& x) {
  return Rotated(params, /*inverse=*/false, x);
}

absl::StatusOr<Tensor> RotaryEmbeddingInputGrad(const RotaryParams& params, const Tensor& dy) {
  return Rotated(params, /*inverse=*/true, dy);
}

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
void AddTableOnHost(const cuda::PositionGrid& grid, const Tensor& x, const Tensor& y) {
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
  const auto add = [&] { AddTableOnHost(grid, x, y); };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "position_table", add, [&] {
    WithElements(
        [&](const auto* from, auto* to) { cuda::AddPositions(cuda::StreamOf(x), grid, from, to); },
        x, y);
  }));
  return y;
}

namespace {

using cuda::RelativeBiasShape;

void CheckBuckets(const RelativeBiasParams& params) {
  DPIPE_CHECK(params.num_buckets >= 4 && params.num_buckets % 4 == 0 &&
              params.num_buckets / 2 <= RelativeBiasShape::kMaxBuckets)
      << params.num_buckets << " buckets";
  DPIPE_CHECK_GT(params.max_distance, params.num_buckets / 4);
  DPIPE_CHECK(params.queries >= 1 && params.keys >= 1)
      << params.queries << " queries, " << params.keys << " keys";
}

// Returns the bucket of a distance among those of its sign, in fp32 as in transformers.
int BucketOfDistance(const RelativeBiasParams& params, int64_t distance) {
  const int half = params.num_buckets / 2, exact = half / 2;
  if (distance < exact) return static_cast<int>(distance);
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(double{1} * params.max_distance / exact));
  return std::min(half - 1, exact + static_cast<int>(ratio * static_cast<float>(half - exact)));
}

RelativeBiasShape BiasShapeOf(const RelativeBiasParams& params, int64_t batch, int64_t heads) {
  RelativeBiasShape shape = {batch, heads, params.queries, params.keys, params.num_buckets / 2, {}};
  const int64_t farthest = std::max(params.queries, params.keys);
  std::fill(std::begin(shape.first), std::end(shape.first), farthest);
  for (int64_t distance = farthest - 1; distance >= 0; --distance) {
    shape.first[BucketOfDistance(params, distance)] = distance;
  }
  // A bucket without distances begins where the next one does.
  for (int bucket = shape.buckets - 2; bucket > 0; --bucket) {
    shape.first[bucket] = std::min(shape.first[bucket], shape.first[bucket + 1]);
  }
  return shape;
}

}  // namespace

int RelativeBucket(const RelativeBiasParams& params, int64_t offset) {
  const int bucket = BucketOfDistance(params, std::abs(offset));
  return offset > 0 ? bucket + params.num_buckets / 2 : bucket;
}

absl::StatusOr<Tensor> RelativeBiasForward(const RelativeBiasParams& params, int64_t batch,
                                           const Tensor& table) {
  CheckBuckets(params);
  const int64_t heads = table.dim(1), offsets = params.queries + params.keys - 1;
  CheckFp32(table, {params.num_buckets, heads});
  Tensor bias = Tensor::Empty(table.device(), {batch, heads, offsets}, DType::kF32);
  // A few hundred kilobytes: one loop serves every host device.
  const auto look_up = [&] {
    for (int64_t i = 0; i < offsets; ++i) {
      const int bucket = RelativeBucket(params, i - params.queries + 1);
      for (int64_t row = 0; row < batch * heads; ++row) {
        bias.data<float>()[row * offsets + i] = table.data<float>()[bucket * heads + row % heads];
      }
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*table.device(), "relative_bias", look_up, [&] {
    cuda::LookUpRelativeBias(cuda::StreamOf(table), BiasShapeOf(params, batch, heads),
                             table.data<float>(), bias.data<float>());
  }));
  return bias;
}

absl::Status RelativeBiasWeightGrad(const RelativeBiasParams& params, const Tensor& dbias,
                                    Tensor* dtable) {
  CheckBuckets(params);
  const int64_t batch = dbias.dim(0), heads = dbias.dim(1);
  const int64_t offsets = params.queries + params.keys - 1;
  CheckFp32(dbias, {batch, heads, offsets});
  CheckFp32(*dtable, {params.num_buckets, heads});
  const auto add = [&] {
    for (int64_t row = 0; row < batch * heads; ++row) {
      for (int64_t i = 0; i < offsets; ++i) {
        const int bucket = RelativeBucket(params, i - params.queries + 1);
        dtable->data<float>()[bucket * heads + row % heads] +=
            dbias.data<float>()[row * offsets + i];
      }
    }
  };
  return RunOn(*dbias.device(), "relative_bias's weight gradient", add, [&] {
    cuda::AddRelativeBiasTableGrad(cuda::StreamOf(dbias), BiasShapeOf(params, batch, heads),
                                   dbias.data<float>(), dtable->data<float>());
  });
}

}  // namespace dpipe::ops
