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
//
// Passes of a stage that differ in their micro-batch alone can stand for one another, so every
// stage ends up with its micro-batches in order in each kind of pass. Memory is limited by stage:
// micro-batch m enters a stage after m - limit has left it, an arc like any other.
#ifndef DPIPE_CORE_SCHEDULE_JUSTIFY_ORDER_H_
#define DPIPE_CORE_SCHEDULE_JUSTIFY_ORDER_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct JustifyOptions {
  std::vector<PassCosts> costs;  // by stage of the schedule
  // By stage: how long its output takes to the stage after it, and its gradient to the one before
  // it. Empty: no time.
  std::vector<Nanos> forward_delay_ns = {}, gradient_delay_ns = {};
  std::vector<Nanos> ready_ns = {};  // by device: its first pass starts no earlier; empty: 0
  std::vector<int> stage_limits =
      {};                // by stage: the most micro-batches kept, at least 1; empty: any
  int max_placed = 100;  // lists placed
};

// An order of the same passes, whose makespan with those delays is that of the best list found; the
// schedule's own order is where the search starts and may break the limits. Passes are split where
// the schedule splits any. Time O(max_placed x slots x log(slots)).
Schedule JustifyOrder(const Schedule& schedule, const JustifyOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_JUSTIFY_ORDER_H_
