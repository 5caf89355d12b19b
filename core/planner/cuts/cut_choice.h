// Chooses the cut of one backbone with the shortest step under the order of its passes.
// [algorithms.md §2]
//
// Partitioners minimise a bound (partition/partition.h). Many cuts share its optimum, and the order
// of the passes does not always reach it. For a V, for example, stages of 1, 1, 7 and 7 layers and
// stages of 4, 4, 4 and 4 layers have the same device sums, but devices of the first cut wait for
// each other. So:
//
//   1. Start from the partitioner's cut, the cut with even layer counts and the cut with even
//      times.
//   2. From each start, move one cut by 1, 2 or 4 layers, or two cuts by one layer each, while
//      memory suffices and the step gets shorter by OrderedStep under the schedule's order.
//   3. Take the best of all these cuts under the order that a plan of each has. If that order
//      depends on the cut, repeat step 2 from the best cut under its order.
#ifndef DPIPE_CORE_PLANNER_CUTS_CUT_CHOICE_H_
#define DPIPE_CORE_PLANNER_CUTS_CUT_CHOICE_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/planner/costs/ordered_step.h"
#include "core/planner/partition/partition.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct CutChoice {
  // Not owned. The problem partitions the schedule's only backbone.
  const PartitionProblem* problem = nullptr;
  const Schedule* schedule = nullptr;
  // Return the times of the passes and of the optimizer step of `layers` on a seat.
  std::function<PassCosts(LayerRange layers, const DeviceSeat& seat)> passes;
  std::function<Nanos(LayerRange layers, const DeviceSeat& seat)> optimizer_ns;
  // Returns the order of the passes in a plan of this cut. Null: the schedule's order for every
  // cut.
  std::function<absl::StatusOr<Schedule>(const Partition& cut)> order_of;
};

struct JudgedCut {
  Partition cut;
  absl::optional<Schedule> order;  // set if it depends on the cut
  Nanos step_ns = 0;               // by OrderedStep
};

// Returns the best cut. If the cut with even layer counts is another one and fits, it comes second:
// effects that OrderedStep ignores may favour it. `partition` is the partitioner's cut, which is
// returned if nothing is better.
std::vector<JudgedCut> ChooseCut(const CutChoice& choice, const Partition& partition);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CUTS_CUT_CHOICE_H_
