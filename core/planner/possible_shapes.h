// Whether a strategy can divide devices and batch at all: known before anything is timed.
#ifndef DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_
#define DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_

#include "core/base/status.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// InvalidArgument, naming the strategy, the numbers and why, if no schedule of `strategy` has a
// shape (shape.h) for what is requested, whatever a model costs: MakePlan would refuse it, too.
// request.schedule is not read. Where frozen outputs are cached, nor is request.frozen_quantum.
absl::Status CheckShapesExist(const Strategy& strategy, ShapeRequest request);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_POSSIBLE_SHAPES_H_
