// Layers and the order of the passes changed together.                     [algorithms.md §2, §5]
//
// The cut that is best for an order need not be the best with an order of its own. So this takes
// turns. The order is shortened by tabu search (schedule/tuning/tabu_order.h), which often ends where the
// busiest device has no gap left between its first pass and its last. Then other cuts are looked
// at: one to three layers moved over a stage boundary, or over two neighbouring ones, or two such
// shifts anywhere. Of those that memory allows, first come the ones in which all devices have
// little to do between the longest way in to their first pass and the longest way out of their last
// one; they are judged by the makespan of the order as it is, messages as before, and the most
// promising of them, by span and by makespan, by a tabu search of their own. The first that is
// shorter becomes the cut. Where none is, the shortest does, with the order that a longer tabu
// search makes of it, shorter or not: no cut is gone on from twice, but after some turns without
// gain it goes back to one of the best few that it has come by. Those are the result. It ends with
// its moves.
//
// Makespans count messages and the optimizer's time, but neither frozen work nor what messages wait
// for each other.
#ifndef DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_
#define DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/build_plan.h"

namespace dpipe {

struct JointOptions {
  // Moves of passes in all tabu searches together; looking at other cuts counts as some, too, a
  // fixed number a turn.
  int max_moves = 10000;
  // Another way through the cuts, that finds others: those come first, and alone are looked at, in
  // which devices have less to do than the makespan, ways in and out left out, and the most
  // promising are those whose orders are the shortest as they are. Where no cut is shorter, it goes
  // on from any of the promising ones.
  bool wanders = false;
};

struct JointResult {
  PipelineCut cut;  // with its order
  Nanos makespan_ns = 0;
};

// At least one and at most 4, of different cuts, the shortest first; simulation, which knows more
// than makespans do, may like another one best. `cut` has an order; the first is no longer than
// what tabu search makes of that. What is looked at does not depend on the number of moves but for
// where it ends. Time O(max_moves x slots).
std::vector<JointResult> SearchJointly(const PlanBuilder& builder, const PipelineShape& shape,
                                       const PipelineCut& cut, const JointOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_
