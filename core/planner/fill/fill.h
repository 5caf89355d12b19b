// Places the next step's frozen work into a plan's idle gaps.                    [algorithms.md §4]
//
// The gaps come from a simulated step of the same plan without frozen work. Work placed in a gap
// fits in it as simulated, so computing it delays no instruction of the backbone. Sending its
// outputs could: they share links with the last gradients and the next step's first activations.
// fill_plan.h handles that case. Work that fits in no gap runs right before the optimizer step. It
// is distributed so that all devices reach that step at about the same time, as far as whole units
// allow. A pipeline group's samples stay in the group.
//
// With a contention factor f, work in a gap may take f times as long, so a gap counts as 1/f of its
// length. On a device of speed v relative to the profile, it counts as v times its length.
//
// Nothing is assumed about the schedule. A gap is any idle interval that the simulation shows
// between a rank's compute instructions, for any number of stages and chains.
//
// Memory: if a rank would exceed its limit (fill_memory.h), it first runs smaller batches and then
// takes fewer samples. The work is assigned again after each such change, up to a fixed number of
// rounds. If memory is still exceeded then, the items are returned anyway, and VerifyPlan rejects
// their plan.
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
  bool even_samples = false;  // shares of a group's devices differ by at most one frozen quantum
  // Components that only some ranks of a pipeline group run, and, by rank of the group, whether it
  // runs them. Empty `hosts`: all ranks run everything. A component that shares a chain
  // (frozen_work.h) with a heavy one is restricted to the same ranks.
  std::vector<int> heavy_components = {};
  std::vector<bool> hosts = {};
  int beam_width = 0;        // PackOptions.beam_width; 0: its default
  bool one_partial = false;  // PackOptions.one_partial
  Nanos min_bubble_ns = 0;   // shorter bubbles are not used; 0: the profile's launch overhead
  // Fraction of each gap that is left free, in [0, 1), for passes and frozen work that take longer
  // than profiled.
  double margin = 0;
  // Computes the optimal instead of the greedy assignment, for small instances (exact.h).
  bool exact = false;
  ExactOptions exact_limits = {};
  // FillPlan only: fills by the published rule (published/published_fill.h), to which of the fields
  // above only `partial_batch`, `min_bubble_ns` and `margin` apply, with partial batches of these
  // sizes.
  bool published = false;
  std::vector<int> local_batches = {};
};

// Returns the fill items for LowerPlan. `unfilled` is the plan lowered without fill items, and
// `events` are those of its periodic simulation, with a step 0 and a step 1. Returns
// InvalidArgument, with both values, if a group's samples are not a multiple of the frozen quantum,
// if `margin` is not in [0, 1), or if the instance is too large for `exact`.
absl::StatusOr<std::vector<FillItem>> PlaceFrozenWork(const Plan& unfilled,
                                                      const std::vector<StreamEvent>& events,
                                                      const CostModel& cost,
                                                      const FillOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_H_
