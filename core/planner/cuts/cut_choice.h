// The cut of one backbone whose step is shortest by the order of its passes.   [algorithms.md §2]
//
// Partitioners minimise a bound (partition/partition.h). Many cuts share its optimum, and the order
// of the passes does not reach it everywhere: of a V, cuts into stages of 1, 1, 7 and 7 layers and
// of 4, 4, 4 and 4 have the same device sums, but devices of the first wait for each other. So
//
//   1. Starts: the partitioner's cut, the one even in layers, and the one even in time.
//   2. From each, by OrderedStep under the schedule's order, move cuts by 1, 2 or 4 layers, alone
//      or two at once, while that shortens the step and memory suffices.
//   3. Of all these take the best under the order that a plan of each has, and do step 2 from it
//      once more under that order.
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
  // Not owned. The problem is of the schedule's only backbone.
  const PartitionProblem* problem = nullptr;
  const Schedule* schedule = nullptr;
  // What the passes, and the optimizer's steps, of layers take on a seat.
  std::function<PassCosts(LayerRange layers, const DeviceSeat& seat)> passes;
  std::function<Nanos(LayerRange layers, const DeviceSeat& seat)> optimizer_ns;
  // The order that a plan of this cut has; null: the schedule's, whatever the cut.
  std::function<absl::StatusOr<Schedule>(const Partition& cut)> order_of;
};

struct JudgedCut {
  Partition cut;
  absl::optional<Schedule> order;  // if it depends on the cut
  Nanos step_ns = 0;               // OrderedStep's
};

// The best, and, if that is another and fits, the cut that is even in layers: what OrderedStep does
// not see may turn the scales. `partition`: the partitioner's, which is the best if nothing is
// better.
std::vector<JudgedCut> ChooseCut(const CutChoice& choice, const Partition& partition);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CUTS_CUT_CHOICE_H_
