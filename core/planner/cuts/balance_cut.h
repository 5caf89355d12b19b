// Local search over the cuts of all backbones together. [algorithms.md §2, §3]
//
// Partitioners cut one backbone, or two in opposite directions, and minimise the time per stage. If
// a device holds stages of several backbones, or of a V under a memory limit, some devices get more
// work than others. The step also depends on the order of the passes. BalanceCut starts from a
// given cut and minimises, in lexicographic order:
//
//   1. the total bytes by which devices exceed their memory limits;
//   2. the makespan at the stages' times, if `by_makespan`;
//   3. the maximum, over devices, of the sum of compute times;
//   4. the sum of the squares of those sums.
//
// A move shifts cuts by 1, 2, 3, 4, 6 or 8 layers. The search tries moves in this order and takes
// the first one that helps:
//
//   1. one cut;
//   2. a run of neighbouring cuts of one backbone;
//   3. two cuts of any backbones, one of which takes layers from the busiest device.
//
// The search ends when no move helps or `max_judged` cuts have been judged. It ignores messages and
// gradient syncs, and keeps seats and recomputation.
#ifndef DPIPE_CORE_PLANNER_CUTS_BALANCE_CUT_H_
#define DPIPE_CORE_PLANNER_CUTS_BALANCE_CUT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct CutBalance {
  // Not owned. Gives the device of each stage and the order of the passes.
  const Schedule* schedule = nullptr;
  bool by_makespan = false;  // false: ignores the makespan
  int max_judged = 4000;     // maximum number of cuts to judge
  // Returns the pass times of `layers` of a backbone on a device.
  std::function<PassCosts(int backbone, LayerRange layers, int device)> costs;
  // Returns the bytes by which a device exceeds its limit with these stages (all cuts, by
  // backbone). Null: no limits.
  std::function<int64_t(int device, const std::vector<std::vector<LayerRange>>& stages)> excess;
};

// Returns the improved stages. `stages` and the result hold, by backbone, the stages of one chain
// without its forward-only lap.
std::vector<std::vector<LayerRange>> BalanceCut(const CutBalance& balance,
                                                std::vector<std::vector<LayerRange>> stages);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CUTS_BALANCE_CUT_H_
