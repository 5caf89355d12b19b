// T5's relative position bias (Raffel et al., arXiv 1910.10683): a learned number per attention
// head and bucket of distances, for the scores of attention (core/ops/attention/attention.h).
#ifndef DPIPE_CORE_OPS_EMBEDDING_RELATIVE_BIAS_H_
#define DPIPE_CORE_OPS_EMBEDDING_RELATIVE_BIAS_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct RelativeBiasParams {
  int num_buckets = 32;    // a multiple of 4, at most 128
  int max_distance = 128;  // above num_buckets / 4
  int64_t queries = 0, keys = 0;
};

// Returns the bucket of `offset`, a key's position minus a query's. Half of the buckets are for
// positive offsets. A quarter of all holds one distance each; the next distances, up to
// max_distance, are divided evenly by logarithm; the last bucket holds all that are farther.
int RelativeBucket(const RelativeBiasParams& params, int64_t offset);

// table fp32 [num_buckets, heads] -> fp32 [batch, heads, queries + keys - 1], the same for each
// sample: element `offset + queries - 1` of head h is table[RelativeBucket(offset), h].
absl::StatusOr<Tensor> RelativeBiasForward(const RelativeBiasParams& params, int64_t batch,
                                           const Tensor& table);

// Adds the table's gradient from that of the bias, sample by sample, offset by offset.
absl::Status RelativeBiasWeightGrad(const RelativeBiasParams& params, const Tensor& dbias,
                                    Tensor* dtable);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_RELATIVE_BIAS_H_
