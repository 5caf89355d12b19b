// Placing the next step's frozen work into a plan's idle gaps.                   [algorithms.md §4]
//
// The gaps are those of a simulated step of the same plan without frozen work. Whatever is placed
// in one fits in it as simulated, so computing it makes no instruction of the backbone start later
// than without filling. Sending its outputs could, as they share links with the last gradients and
// the next step's first activations: fill_plan.h sees to that. What fits in none runs right before
// the optimizer step, shared out so that all devices get there at the same time as nearly as whole
// units allow. A pipeline group's samples stay in the group.
//
// With a contention factor f, work in a gap may run f times as long; gaps count as 1/f of their
// length. On a device of another speed than the profile's they count by it.
//
// Nothing is assumed of the schedule: gaps are whatever the simulation shows between a rank's
// compute instructions, of however many stages, chains and kinds these are.
//
// Memory: where a rank would exceed its limit (fill_memory.h), it runs smaller batches and then
// takes fewer samples, and the rest is shared out again, for a few rounds. Items that exceed it
// all the same are what is returned if nothing else is found; VerifyPlan refuses their plan.
#ifndef DPIPE_CORE_PLANNER_FILL_FILL_H_
#define DPIPE_CORE_PLANNER_FILL_FILL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/fill/exact/exact.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct FillOptions {
  bool partial_batch = true;
  bool even_samples = false;  // every device of a group takes as many, to one frozen quantum
  // Components that only some ranks of a pipeline group run, and whether a rank does; none: all
  // run everything. A component that shares a chain (frozen_work.h) with such a one goes with it.
  std::vector<int> heavy_components = {};
  std::vector<bool> hosts = {};
  Nanos min_bubble_ns = 0;  // shorter bubbles are left alone; 0: the profile's launch overhead
  // The part of each gap that is left free, in [0, 1): room for passes and frozen work that take
  // longer than the profile says.
  double margin = 0;
  // The optimum instead of the greedy assignment, for small instances (exact.h).
  bool exact = false;
  ExactOptions exact_limits = {};
};

// The items for LowerPlan. `unfilled` is the plan lowered without any, `events` those of a periodic
// simulation of it with a step 0 and a step 1. InvalidArgument, with both values, if a group's
// samples are no multiple of the frozen quantum, if `margin` is not in [0, 1), or if the instance
// is too large for `exact`.
absl::StatusOr<std::vector<FillItem>> PlaceFrozenWork(const Plan& unfilled,
                                                      const std::vector<StreamEvent>& events,
                                                      const CostModel& cost,
                                                      const FillOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_H_
