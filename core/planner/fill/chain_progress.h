// How far one chain of frozen work has come on one device, and what it could do next.
//
// All of the device's units, or of a block of at most `max_batch` of them, pass a step before the
// first of them begins the next one; a step may be split over gaps into partial batches. Blocks
// pass the whole chain one after another.
#ifndef DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_
#define DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_

#include <algorithm>
#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/pack.h"

namespace dpipe {

class ChainProgress {
 public:
  // `work` outlives this. `max_batch` 0: unlimited.
  ChainProgress(const FrozenWork& work, int chain, int num_units, int max_batch);

  bool done() const { return step_ == end_; }

  // [k]: the time of the next k full-batch steps, block by block, the first of which may be the
  // rest of a step that a partial batch began. Stops at the first that is longer than `limit`.
  std::vector<Nanos> FullBatchTimes(Nanos limit) const;
  // Of all that is left, in one go.
  Nanos RestTime() const;

  // Takes the next `count` full-batch steps.
  void Advance(int count, int gap, std::vector<Placement>& out);

  // The most units of the next step, short of all, that fit in `room` and save later at least
  // `worth` of the time that they take now; 0 for none.
  int PartialUnits(Nanos room, double worth) const;
  Nanos PartialTime(int units) const { return Times(step_)[units] + overhead_ns_; }
  void AdvancePartially(int units, int gap, std::vector<Placement>& out);

  friend bool operator==(const ChainProgress& a, const ChainProgress& b) {
    return a.index_ == b.index_ && a.step_ == b.step_ && a.done_units_ == b.done_units_;
  }

 private:
  // Steps are counted on over the blocks: step i is step i % num_steps of block i / num_steps.
  int num_steps() const { return static_cast<int>(chain_->steps.size()); }
  int BlockBegin(int step) const { return step / num_steps() * block_; }
  int BlockUnits(int step) const { return std::min(block_, num_units_ - BlockBegin(step)); }
  const std::vector<Nanos>& Times(int step) const { return chain_->step_ns[step % num_steps()]; }
  Nanos StepTime(int step) const;
  void Place(int step_begin, int step_end, int unit_begin, int unit_end, int gap,
             std::vector<Placement>& out) const;

  const Chain* chain_;
  int index_;
  int num_units_;
  int block_;  // units of a block, but for the last one
  Nanos overhead_ns_;
  int step_ = 0;        // the first that not all units of its block have done
  int end_ = 0;         // of the last block
  int done_units_ = 0;  // of step_'s block that have done it
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_
