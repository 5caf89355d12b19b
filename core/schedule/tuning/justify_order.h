// Shortens the order of a schedule's passes by justification.                [algorithms.md §5]
//
// A list schedule never lets a free device wait, so it may start a pass that delays a more urgent
// one. Here passes are placed one by one, in the order of a list, each into the earliest gap of its
// device that it fits into. Double justification (Valls, Ballestin and Quintanilla, "Justification
// and RCPSP", EJOR 165, 2005) improves such a placement:
//   1. Places the passes backwards from the end of the schedule, in decreasing order of their end
//      times. This pushes every pass to the right as far as possible.
//   2. Places them forwards from the beginning, in the order of the new start times.
//   3. Repeats 1 and 2 while the makespan decreases. Neither step increases it, and passes with
//      slack make way for those without.
//   4. Perturbs the start times of some passes at random (anywhere, on one device, or weight
//      gradients only), places them in that order and repeats 1 to 3. The result replaces the best
//      one if it is no longer.
// The random search has a fixed seed, so equal requests have equal results.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_
#define DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_

#include "core/schedule/schedule.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

struct JustifyOptions {
  PassGraphCosts times;
  int max_placed = 100;  // maximum number of lists placed
};

// Returns the order of the best list found, for the costs and delays of `options.times`. The search
// starts from the schedule's own order, which may exceed the limits. Backward passes are split if
// the schedule splits any. Time O(max_placed x slots x log(slots)).
Schedule JustifyOrder(const Schedule& schedule, const JustifyOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_
