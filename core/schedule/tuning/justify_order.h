// Orders of the passes made shorter by justification.                         [algorithms.md §5]
//
// A list schedule never lets a free device wait, and so may start a pass that holds up a more
// urgent one. Here passes are placed one after another, in the order of a list, each into the
// earliest gap of its device that it fits in. Double justification (Valls, Ballestin and
// Quintanilla, "Justification and RCPSP", EJOR 165, 2005) does that from the end backwards, in the
// order in which passes end, which pushes every pass to the right as far as it goes, and then from
// the beginning in the order in which they begin now: neither makes the whole longer, and what has
// slack gives way to what has not. That is repeated while it helps. Then the times of some passes,
// anywhere, on one device or weight gradients only, are changed at random, and what is no longer
// than before is kept: a search with a fixed seed, so that the same request has the same answer.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_
#define DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_

#include "core/schedule/schedule.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

struct JustifyOptions {
  PassGraphCosts times;
  int max_placed = 100;  // lists placed
};

// An order of the same passes, whose makespan with those delays is that of the best list found; the
// schedule's own order is where the search starts and may break the limits. Passes are split where
// the schedule splits any. Time O(max_placed x slots x log(slots)).
Schedule JustifyOrder(const Schedule& schedule, const JustifyOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_JUSTIFY_ORDER_H_
