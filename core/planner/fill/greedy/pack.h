// Packing one device's share of the frozen work into its idle gaps.             [algorithms.md §4]
//
// The gaps are walked in time order. Each is given first the longest *full-batch* set: steps of its
// chains, consecutive within each chain, on all of the device's units, whose total time fits. Then
// *partial batches*: the next step of a chain on as many units as fit, the rest of which comes
// later. A partial batch is taken only where it saves later at least half of the time that it takes
// now: below this, the batch is too small for the device to be efficient.
//
// What fits in no gap runs after the last one. Beyond the paper: a partial batch of each chain, not
// of one; and where something is left, several walks are compared that choose otherwise
// (`beam_width`).
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"

namespace dpipe {

// Steps [step_begin, step_end) of a chain on the device's units [unit_begin, unit_end).
struct Placement {
  int gap = 0;  // index into the gaps; their number for what runs after the last
  int chain = 0;
  int step_begin = 0;
  int step_end = 0;
  int unit_begin = 0;
  int unit_end = 0;
};

// What it takes: its steps' times and the overhead of the instructions it becomes.
Nanos PlacementTime(const FrozenWork& work, const Placement& placement);

struct Packing {
  std::vector<Placement> placements;  // by gap, in the order in which they run
  std::vector<Nanos> used_ns;         // by gap: never more than its length
  Nanos leftover_ns = 0;              // time of what runs after the last gap
};

struct PackOptions {
  bool partial_batch = true;
  Nanos min_gap_ns = 0;  // shorter gaps are left alone
  // The most units that run, or wait between two steps, at once: bounds the memory that
  // intermediate values take. "All of the device's units" above are then all of a block of so many,
  // and blocks pass the chain one after another. 0: unlimited.
  int max_batch_units = 0;
  // Above 1, and where the one walk leaves something: so many walks at a time that differ in what
  // they give to each gap, inefficient partial batches included (beam_pack.h). The best is taken
  // where it leaves less. Takes several times as long.
  int beam_width = 4;
};

// `units[c]` of chain c are the device's. O(gaps * steps^2) for two chains; chains beyond the
// second are packed one after another before these two.
Packing Pack(const FrozenWork& work, const std::vector<int>& units, const std::vector<Nanos>& gaps,
             const PackOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_
