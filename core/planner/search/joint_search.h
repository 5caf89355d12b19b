// Searches the cut and the order of the passes together. [algorithms.md §2, §5]
//
// The best cut for one order need not be the best cut with an order of its own. So the search
// repeats these steps until its moves are used up:
//
//   1. Shorten the order by tabu search (schedule/tuning/tabu_order.h). That often ends when the
//   busiest
//      device has no gap left between its first pass and its last.
//   2. List other cuts that memory allows: one shift or two shifts anywhere, of one to three layers
//      over a stage boundary or over two neighbouring ones (cut_neighbours.h). Cuts come first if
//      all devices have little to do between the longest way in to their first pass and the longest
//      way out of their last one.
//   3. Judge these cuts by the makespan of the order as it is, with messages as before.
//   4. Judge the most promising ones, by span and by makespan, by a short tabu search each.
//   5. Continue from the first of them with a shorter makespan. If there is none, continue from the
//      shortest one, with the order that a longer tabu search makes of it, even if that is no
//      shorter.
//   6. Never continue from a cut twice. After some turns without gain, return to one of the best
//      few cuts found so far.
//
// The best few cuts are the result. Makespans include messages and optimizer steps, but neither
// frozen work nor contention between messages.
#ifndef DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_
#define DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/build_plan.h"

namespace dpipe {

struct JointOptions {
  // Moves of passes in all tabu searches together. Judging other cuts counts as a fixed number of
  // moves per turn.
  int max_moves = 10000;
  // Explores the cuts in another way, which finds others. Considers only cuts with which every
  // device has less work than the makespan, ignoring ways in and out. The most promising cuts are
  // those with the shortest makespan of the order as it is. If no cut is shorter, continues from
  // any promising one.
  bool diversify = false;
};

struct JointResult {
  PipelineCut cut;  // with its order
  Nanos makespan_ns = 0;
};

// Returns 1 to 4 results with different cuts, the shortest first. Simulation knows more than
// makespans do, so it may prefer another result. `cut` has an order; the first result is no longer
// than what tabu search makes of that order. The number of moves affects where the search ends, not
// what it explores before. O(max_moves x slots).
std::vector<JointResult> SearchJointly(const PlanBuilder& builder, const PipelineShape& shape,
                                       const PipelineCut& cut, const JointOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_JOINT_SEARCH_H_
