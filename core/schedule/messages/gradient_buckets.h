// The buckets in which the gradients of a stage are reduced.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// Returns the layers of each bucket, from the last layers to the first. A bucket is closed when it
// has at least `bucket_bytes` bytes of gradients. A final bucket that is less than half full is
// merged into the one before it.
std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
