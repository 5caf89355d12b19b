// The best filling there is, for small instances.                              [algorithms.md §4]
//
// What is optimised: first the time at which the last device is done with its backbone work and
// its share of the frozen work, or all devices reach the optimizer step anyway, whichever is later;
// then, at that time, the sum over devices of what runs after their last gaps.
//
// Over what: every way to
//   - share each chain's units out to devices: a unit's whole chain stays on one device;
//   - run, in each gap of a device, at most one batch of each step of each chain, of any number of
//     its units, such that a unit's steps come in order (within a gap, too);
//   - run what is left after the last gap, each step's rest in one batch.
// Units are alike, so that batches take them in order: the first batch of a step has units 0, 1..
// A batch of u units takes step_ns[step][u]; an instruction's overhead is paid once for
// consecutive steps on the same units. Without `partial_batch` every batch has all of the device's
// units. AssignUnits chooses among these too, but for a step it begins only when the one before it
// is done on all units: the optimum is never worse than its result.
//
// Restrictions: two batches of one step in one gap are not considered; they help only where the
// batch curve makes two small batches cheaper than one large one, or where they save the overhead
// of an instruction. The order of chains within a gap
// is free of cost and not part of the problem.
//
// How: a mixed integer program of one binary for each (device, chain, step, gap, batch size),
// solved by Cbc (milp.h) below the value that AssignUnits finds. Exponential in the worst case.
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
  double time_limit_s = 60;  // of processor time, for each of the two objectives; 0: none
  int max_binaries = 6000;   // (device, chain, step, gap, batch size) that fit; more are refused
  bool minimise_leftover = true;  // false: the first objective alone
};

struct ExactAssignment {
  Assignment assignment;
  Nanos finish_ns = 0;    // the first objective
  Nanos leftover_ns = 0;  // the second
  // Whether both are proven to be optimal. Where the time limit struck, `assignment` is the best
  // found, never worse than that of AssignUnits.
  bool proven = false;
  // No assignment finishes earlier: finish_ns where that is proven to be optimal.
  Nanos finish_bound_ns = 0;
  // Times enter the program in multiples of this, work rounded up and gaps down, so that its
  // numbers stay below 2^16; above 1, optimum and bound are those of the rounded times.
  Nanos resolution_ns = 1;
};

// InvalidArgument, with the size and the limit, for an instance that is too large, for units that
// no sharing fits in max_units, and for devices with a max_batch_units, which the program has not.
absl::StatusOr<ExactAssignment> AssignUnitsExactly(const FrozenWork& work,
                                                   const std::vector<DeviceGaps>& devices,
                                                   const AssignOptions& assign,
                                                   const ExactOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_EXACT_EXACT_H_
