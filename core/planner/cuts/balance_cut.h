// Cuts of all backbones moved together, until the devices' work or the schedule's makespan falls no
// further.                                                               [algorithms.md §2, §3]
//
// Partitioners cut one backbone, or two in opposite directions, and minimise what a stage takes.
// Where a device holds stages of several backbones, or of a V under a memory limit, that leaves
// devices with more work than others; and what a step takes depends on the order of the passes too.
// This is a local search from a given cut over both. It minimises, in this order, the memory by
// which devices exceed their limits; the makespan at the stages' times, if asked to; the largest
// device sum of compute times; and the sum of those sums' squares. It moves one cut or a run of
// neighbouring cuts of a backbone, or two cuts anywhere of which one is the busiest device's, by 1,
// 2, 4 or 8 layers, takes the first that helps, and ends where none does or enough have been
// judged. Messages and gradient syncs are left out, seats and recomputation are kept.
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
  // Not owned. Its structure says where stages lie, its order what the makespan is.
  const Schedule* schedule = nullptr;
  bool by_makespan = false;  // else only by the devices' sums
  int max_judged = 4000;     // cuts
  // What the passes of layers of backbone b take on a device.
  std::function<PassCosts(int backbone, LayerRange layers, int device)> costs;
  // Bytes by which a device exceeds its limit with these stages, all cuts by backbone; null: no
  // limits.
  std::function<int64_t(int device, const std::vector<std::vector<LayerRange>>& stages)> excess;
};

// `stages`: by backbone, of one chain without its forward-only lap. Returns likewise.
std::vector<std::vector<LayerRange>> BalanceCut(const CutBalance& balance,
                                                std::vector<std::vector<LayerRange>> stages);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CUTS_BALANCE_CUT_H_
