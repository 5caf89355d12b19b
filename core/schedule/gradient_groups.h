// Whose gradients are summed together, and in which parts.
#ifndef DPIPE_CORE_SCHEDULE_GRADIENT_GROUPS_H_
#define DPIPE_CORE_SCHEDULE_GRADIENT_GROUPS_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/schedule/layout.h"

namespace dpipe {

// The layers whose gradients are reduced together, from the back to the front: each bucket is
// closed when it has at least `bucket_bytes`, and a last one that is not half full joins the one
// before it.
std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes);

// The first stage that carries gradients of the same layers of the same backbone, by stage: stages
// of equal number here sum their gradients together. -1 where a stage is forward-only.
std::vector<int> TwinStages(const PipelineLayout& layout);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_GRADIENT_GROUPS_H_
