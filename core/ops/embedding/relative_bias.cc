#include "core/ops/embedding/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cuda/kernels/lookups.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

using cuda::RelativeBiasShape;

void CheckParams(const RelativeBiasParams& params) {
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

RelativeBiasShape ShapeOf(const RelativeBiasParams& params, int64_t batch, int64_t heads) {
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
  CheckParams(params);
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
  DPIPE_RETURN_IF_ERROR(RunOn(*table.device(), "relative_bias", look_up, look_up, [&] {
    cuda::LookUpRelativeBias(cuda::StreamOf(table), ShapeOf(params, batch, heads),
                             table.data<float>(), bias.data<float>());
  }));
  return bias;
}

absl::Status RelativeBiasWeightGrad(const RelativeBiasParams& params, const Tensor& dbias,
                                    Tensor* dtable) {
  CheckParams(params);
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
  return RunOn(*dbias.device(), "relative_bias's weight gradient", add, add, [&] {
    cuda::AddRelativeBiasTableGrad(cuda::StreamOf(dbias), ShapeOf(params, batch, heads),
                                   dbias.data<float>(), dtable->data<float>());
  });
}

}  // namespace dpipe::ops
