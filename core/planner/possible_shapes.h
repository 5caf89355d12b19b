// Checks whether a strategy can divide devices and batch at all, before anything is timed.
#ifndef DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_
#define DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_

#include "core/base/status.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns InvalidArgument, naming the strategy, the numbers and the reason, if no schedule of
// `strategy` has a shape (shape.h) for the request, whatever a model costs. MakePlan would refuse
// such a request too. Ignores request.schedule and, if frozen outputs are cached,
// request.frozen_quantum.
absl::Status CheckShapesExist(const Strategy& strategy, ShapeRequest request);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_
