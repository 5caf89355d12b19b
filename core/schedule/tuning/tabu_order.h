// Tabu search for a shorter order of the passes.                                [algorithms.md §5]
//
// The makespan of an order is a longest path through passes and messages. A block is a maximal
// sequence of passes on that path that follow each other on one device. An order can only be
// shorter if it moves a pass of some block before the block's first pass or behind its last one.
//
//   1. Find a longest path.
//   2. Take the moves of its blocks: a pass to before the first or behind the last pass of its
//      block, or the first or the last pass to anywhere within it.
//   3. Make the move with the smallest estimated makespan (pass_sequences.h), even if it is longer.
//   4. Mark the reversal of the exchanged pairs as tabu for some steps. A tabu move is still
//      allowed if it would give the shortest order so far.
//   5. After some steps without improvement, return to the best order.
//
// (Nowicki and Smutnicki, "A fast taboo search algorithm for the job shop problem", Management
// Science 42, 1996. The moves are those of Zhang et al., "A tabu search algorithm with a new
// neighborhood structure for the job shop scheduling problem", COR 34, 2007.)
//
// Deterministic: the same request with the same seed has the same result.
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
  Nanos enough_ns = 0;  // stop at a makespan of at most this
};

struct TabuResult {
  Schedule schedule;
  Nanos makespan_ns = 0;  // with messages; measured on the same clock as ready_ns
  int num_moves = 0;      // less than max_moves if it stopped early or found no move
};

// Returns the shortest order found. The search starts from the schedule's own order, adjusted if it
// exceeds the limits. If the schedule splits any backward pass, all of them are split.
// Time O(max_moves x slots).
TabuResult TabuOrder(const Schedule& schedule, const TabuOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_TABU_ORDER_H_
