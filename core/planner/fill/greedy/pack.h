// Packs one device's share of the frozen work into its idle gaps.               [algorithms.md §4]
//
// Greedy, one gap after another in time order:
//   1. Full batches: the set of steps with the longest total time that fits. Its steps are
//      consecutive within each chain and run on all of the device's units.
//   2. Partial batches: the next step of a chain on as many units as fit; the rest follows later. A
//      partial batch is taken only if it later saves at least half of the time it takes now.
//      Smaller batches are too inefficient on the device.
// Work that fits in no gap runs after the last one.
//
// Differences from the paper: each chain may add a partial batch to a gap, not only one chain. If
// the greedy packing leaves work over, a beam search (`beam_width`) looks for a better one.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"

namespace dpipe {

class ChainBatches;

// Steps [step_begin, step_end) of a chain on the device's units [unit_begin, unit_end).
struct Placement {
  int gap = 0;  // index of the gap; the number of gaps for work after the last one
  int chain = 0;
  int step_begin = 0;
  int step_end = 0;
  int unit_begin = 0;
  int unit_end = 0;
};

// Returns the time of a placement: its steps' times plus the overhead of its instructions.
Nanos PlacementTime(const FrozenWork& work, const Placement& placement);

struct Packing {
  std::vector<Placement> placements;  // by gap, in execution order
  std::vector<Nanos> used_ns;         // by gap: at most its length
  Nanos leftover_ns = 0;              // time of the work after the last gap
};

struct PackOptions {
  bool partial_batch = true;
  bool one_partial = false;  // at most one partial batch per gap instead of one per chain and gap
  Nanos min_gap_ns = 0;      // shorter gaps are not used
  // Maximum number of units that run, or wait between two steps, at once; limits the memory of
  // intermediate values. Units then pass the chain in blocks of this size, one after another, and a
  // full batch is one of all units of a block. 0: unlimited.
  int max_batch_units = 0;
  // Width of the beam search that runs if the greedy packing leaves work over (beam_pack.h). It may
  // also take inefficient partial batches, and its result is used if it leaves less. Takes several
  // times as long as the greedy packing. 1: no beam search.
  int beam_width = 4;
};

// Packs `units[c]` units of each chain c. Time O(gaps * steps^2) for two chains. If there are more,
// each gap first takes as many steps as fit of all but the last two, one chain after another.
Packing Pack(const FrozenWork& work, const std::vector<int>& units, const std::vector<Nanos>& gaps,
             const PackOptions& options);

// Packs one work again and again, and keeps the sums of its steps' times. Not thread-safe.
class Packer {
 public:
  explicit Packer(const FrozenWork& work);  // must outlive this
  ~Packer();

  // As Pack above.
  Packing Pack(const std::vector<int>& units, const std::vector<Nanos>& gaps,
               const PackOptions& options);
  // Returns the leftover_ns of that packing, in less time.
  Nanos Leftover(const std::vector<int>& units, const std::vector<Nanos>& gaps,
                 const PackOptions& options);

 private:
  // Returns the batches of every chain, owned by this.
  const std::vector<const ChainBatches*>& BatchesOf(const std::vector<int>& units,
                                                    int max_batch_units);

  const FrozenWork& work_;
  // By chain, number of units and maximum number of units per batch.
  std::map<std::tuple<int, int, int>, std::unique_ptr<const ChainBatches>> known_;
  std::vector<const ChainBatches*> current_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_PACK_H_
