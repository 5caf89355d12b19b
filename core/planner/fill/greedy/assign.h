// Decides how many units of each frozen chain each device runs.                 [algorithms.md §4]
//
// Minimises the makespan: the time at which the last device has finished its backbone work and its
// share of the frozen work. Shares are uneven: a device takes more if its gaps hold more or if its
// stage ends earlier.
//
//   1. Longest chain first, each unit goes to the device with the least busy time.
//   2. Local search: moves and swaps one or two units away from the device that finishes last, for
//      as long as this improves the makespan. Each change is judged by greedy packing (pack.h).
//   3. If frozen work still delays the optimizer step, repeats step 2 with beam search packing.
//
// greedy_gap_test.cc compares the result with the optimum (exact.h) on small random instances.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// One device's step, simulated without frozen work.
struct DeviceGaps {
  // Idle intervals between its instructions, in time order, on the time scale of FrozenWork: on a
  // device of half the speed, a gap is half of the interval's length.
  std::vector<Nanos> gaps;
  Nanos end_ns = 0;         // end of its last instruction before the optimizer step
  Nanos optimizer_ns = 0;   // start of its optimizer step; work that ends by then delays nothing
  double speed = 1;         // work of t ns after the last gap takes t / speed
  int max_batch_units = 0;  // see PackOptions
  std::vector<int> max_units = {};  // by chain; empty: unlimited

  friend bool operator==(const DeviceGaps& a, const DeviceGaps& b) {
    return a.gaps == b.gaps && a.end_ns == b.end_ns && a.optimizer_ns == b.optimizer_ns &&
           a.speed == b.speed && a.max_batch_units == b.max_batch_units &&
           a.max_units == b.max_units;
  }
};

struct AssignOptions {
  PackOptions pack;
  // Ignores the gaps: device d takes EvenShare() units of each chain.
  bool even_samples = false;
};

struct Assignment {
  std::vector<std::vector<int>> units;  // [device][chain]; sums to work.num_units per chain
  std::vector<Packing> packings;        // [device]
  std::vector<Nanos> finish_ns;         // [device]: end_ns + time of the work after the last gap
};

// Returns an assignment of all units. If no device may take another unit of a chain, the device
// with the least busy time takes it anyway and exceeds its max_units. `devices` must not be empty.
Assignment AssignUnits(const FrozenWork& work, const std::vector<DeviceGaps>& devices,
                       const AssignOptions& options);

// Returns ns / speed, rounded up.
Nanos TimeAtSpeed(Nanos ns, double speed);

// Returns device d's units of a chain if `num_devices` devices share its units evenly. Shares
// differ by at most one and sum to `num_units`.
int EvenShare(int num_units, int num_devices, int d);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_ASSIGN_H_
