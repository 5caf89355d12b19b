// Which device runs how many units of each frozen chain.                        [algorithms.md §4]
//
// Minimises the time at which the last device has done its backbone work and its share of the
// frozen work. Shares are uneven: a device whose gaps hold more, or whose stage ends earlier, takes
// more. Longest-first greedy on the time that is left to each device, then moves and swaps of one
// or two units away from the device that finishes last, while this improves; each is judged by
// packing, first in one walk each and then, if the optimizer step would still be late, by several.
//
// greedy_gap_test.cc compares with the optimum (exact.h) on random small instances.
#ifndef DPIPE_CORE_PLANNER_FILL_ASSIGN_H_
#define DPIPE_CORE_PLANNER_FILL_ASSIGN_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/pack.h"

namespace dpipe {

// One device's step without frozen work.
struct DeviceGaps {
  std::vector<Nanos> gaps;  // idle intervals between its instructions, in time order
  Nanos end_ns = 0;         // when its last instruction before the optimizer step ends
  Nanos optimizer_ns = 0;   // when its optimizer step starts: what ends by then delays nothing
};

struct Assignment {
  std::vector<std::vector<int>> units;  // [device][chain]; sums to work.num_units for each chain
  std::vector<Packing> packings;        // [device]
  std::vector<Nanos> finish_ns;         // [device]: end_ns + what runs after the last gap
};

Assignment AssignUnits(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                       const PackOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_ASSIGN_H_
