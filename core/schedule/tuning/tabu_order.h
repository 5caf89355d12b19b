// Orders of the passes made shorter by tabu search on the longest path.          [algorithms.md §5]
//
// The makespan of an order is a longest path through passes and messages. On it passes of one
// device follow on each other in blocks, and only an order that takes a pass of a block out before
// its first or behind its last one can be shorter. So every step takes, of such moves on one
// longest path (the first and the last of a block may also go anywhere within), the one whose
// outcome is estimated best (pass_sequences.h), even if that makes the whole longer; what it put
// before each other must not be turned round again for a while, unless that would give the shortest
// order so far. (Nowicki and Smutnicki, "A fast taboo search algorithm for the job shop problem",
// Management Science 42, 1996; the moves are those of Zhang et al., "A tabu search algorithm with a
// new neighborhood structure for the job shop scheduling problem", COR 34, 2007.) After some steps
// without gain it goes back to the best order. The same request with the same seed has the same
// answer.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_TABU_ORDER_H_
#define DPIPE_CORE_SCHEDULE_TUNING_TABU_ORDER_H_

#include "core/base/time.h"
#include "core/schedule/schedule.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

struct TabuOptions {
  PassGraphCosts times;
  int max_moves = 1000;
  int seed = 0;
  Nanos enough_ns = 0;  // stops at a makespan no longer than this
};

struct TabuResult {
  Schedule schedule;
  Nanos makespan_ns = 0;  // with messages, and from the moment on at which ready_ns counts
  int num_moves = 0;      // less than max_moves where no path has any
};

// The shortest order found; the schedule's own, changed as far as it breaks the limits, is where
// the search starts. Passes are split where the schedule splits any. Time O(max_moves x slots).
TabuResult TabuOrder(const Schedule& schedule, const TabuOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_TABU_ORDER_H_
