// The buckets in which the gradients of a stage are reduced and its weights gathered.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// Joins neighbouring parts, listed from the last layers to the first, to buckets in the same order.
// A bucket is closed when `bytes_of` its layers is at least `bucket_bytes`. A final bucket that is
// less than half full is merged into the one before it.
std::vector<LayerRange> JoinToBuckets(const std::vector<LayerRange>& parts, int64_t bucket_bytes,
                                      const std::function<int64_t(LayerRange)>& bytes_of);

// Returns the buckets of layers by the bytes of their gradients.
std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes);
// Returns the buckets of layers by the bytes of their weights, trained or not. If all are trained,
// these are the GradientBuckets.
std::vector<LayerRange> WeightBuckets(const CostModel& cost, int component, LayerRange layers,
                                      int64_t bucket_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
