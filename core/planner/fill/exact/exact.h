// Optimal filling of small instances.                                          [algorithms.md §4]
//
// Objectives, in order:
//   1. The finish: the time at which the last device has finished its backbone work and its share
//      of the frozen work, but no earlier than the optimizer step without frozen work.
//   2. At that finish, the total time of the work after the devices' last gaps.
//
// Search space: all ways to
//   - distribute each chain's units over devices; a unit's whole chain stays on one device;
//   - run, in each gap of a device, at most one batch of each step of each chain, with any number
//     of its units, so that a unit's steps run in order (within a gap, too);
//   - run the rest after the last gap, one batch per step.
// Units are identical, so batches take them in order: the first batch of a step has units 0, 1...
// A batch of u units takes step_ns[step][u]. The overhead of an instruction is paid once for
// consecutive steps on the same units. Without `partial_batch`, every batch has all of the device's
// units. AssignUnits searches a subset: it begins a step only when the step before it is done on
// all units. The optimum is therefore never worse than its result.
//
// Restrictions: two batches of one step in one gap are not considered. They would help only if two
// small batches are cheaper than one large one, or if they save the overhead of an instruction. The
// order of chains within a gap has no cost and is not part of the problem.
//
// Method: a mixed integer program with one binary per (device, chain, step, gap, batch size). Cbc
// (milp.h) solves it, with the value found by AssignUnits as the upper bound. Exponential in the
// worst case.
#ifndef DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_H_
#define DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/assign.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

struct ExactOptions {
  double time_limit_s = 60;  // CPU time for each of the two objectives; 0: no limit
  int max_binaries = 6000;   // (device, chain, step, gap, batch size) that fit; more is an error
  bool minimise_leftover = true;  // false: only the first objective
};

struct ExactAssignment {
  Assignment assignment;
  Nanos finish_ns = 0;    // the first objective
  Nanos leftover_ns = 0;  // the second
  // True if all requested objectives are proven optimal. If the time limit was reached,
  // `assignment` is the best one found, never worse than that of AssignUnits.
  bool proven = false;
  // Lower bound on the finish; equal to finish_ns if that is proven optimal.
  Nanos finish_bound_ns = 0;
  // The program's times are multiples of this, with work rounded up and gaps rounded down, so that
  // they stay within 2^16. If this is above 1, optimum and bound are those of the rounded times.
  Nanos resolution_ns = 1;
};

// Returns InvalidArgument, with both values, if the instance is too large, if the max_units of all
// devices leave no room for some units, or if a device has max_batch_units, which is not modelled.
absl::StatusOr<ExactAssignment> AssignUnitsExactly(const FrozenWork& work,
                                                   const std::vector<DeviceGaps>& devices,
                                                   const AssignOptions& assign,
                                                   const ExactOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_H_
