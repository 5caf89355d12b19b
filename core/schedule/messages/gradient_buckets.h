// The parts in which the gradients of a stage are reduced.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// The layers whose gradients are reduced together, from the back to the front: each bucket is
// closed when it has at least `bucket_bytes`, and a last one that is not half full joins the one
// before it.
std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_GRADIENT_BUCKETS_H_
