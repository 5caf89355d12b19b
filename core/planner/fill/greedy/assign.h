// Which device runs how many units of each frozen chain.                        [algorithms.md §4]
//
// Minimises the time at which the last device has done its backbone work and its share of the
// frozen work. Shares are uneven: a device whose gaps hold more, or whose stage ends earlier, takes
// more. Longest-first greedy on the time that is left to each device, then moves and swaps of one
// or two units away from the device that finishes last, while this improves; each is judged by
// packing, first in one walk each and then, if the optimizer step would still be late, by several.
//
// greedy_gap_test.cc compares with the optimum (exact.h) on random small instances.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// One device's step without frozen work.
struct DeviceGaps {
  // Idle intervals between its instructions, in time order, in terms of the work's times: half of
  // an interval's length on a device of half the speed.
  std::vector<Nanos> gaps;
  Nanos end_ns = 0;         // when its last instruction before the optimizer step ends
  Nanos optimizer_ns = 0;   // when its optimizer step starts: what ends by then delays nothing
  double speed = 1;         // work after the last gap takes 1 / speed of its time
  int max_batch_units = 0;  // as PackOptions'
  std::vector<int> max_units = {};  // of each chain; empty: unlimited

  friend bool operator==(const DeviceGaps& a, const DeviceGaps& b) {
    return a.gaps == b.gaps && a.end_ns == b.end_ns && a.optimizer_ns == b.optimizer_ns &&
           a.speed == b.speed && a.max_batch_units == b.max_batch_units &&
           a.max_units == b.max_units;
  }
};

struct AssignOptions {
  PackOptions pack;
  // Every device takes the same number of units of each chain, or one more, whatever its gaps hold.
  bool even_samples = false;
};

struct Assignment {
  std::vector<std::vector<int>> units;  // [device][chain]; sums to work.num_units for each chain
  std::vector<Packing> packings;        // [device]
  std::vector<Nanos> finish_ns;         // [device]: end_ns + what runs after the last gap
};

// Where max_units leave no place for a unit, the device with least to do takes it all the same.
Assignment AssignUnits(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                       const AssignOptions& options);

// How long work of `ns` takes at `speed`, rounded up.
Nanos TimeAtSpeed(Nanos ns, double speed);

// The units of each chain on device d of `num_devices` where all take the same number.
int EvenShare(int num_units, int num_devices, int d);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_
