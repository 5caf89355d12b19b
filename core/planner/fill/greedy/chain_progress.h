// How far one chain of frozen work has come on one device, and what it could do next.
//
// All of the device's units, or of a block of at most `max_batch` of them, pass a step before the
// first of them begins the next one; a step may be split over gaps into partial batches. Blocks
// pass the whole chain one after another.
//
// ChainBatches is what stays the same on the way, with the sums of its steps' times; a
// ChainProgress is small and refers to one, so that a search copies it freely.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_

#include <algorithm>
#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// A device's units of one chain. Steps are counted on over the blocks: step i is step
// i % num_steps of block i / num_steps.
class ChainBatches {
 public:
  // `work` outlives this. `max_batch` 0: unlimited. O(steps).
  ChainBatches(const FrozenWork& work, int chain, int num_units, int max_batch);

  int chain() const { return index_; }
  int num_steps() const { return static_cast<int>(chain_->steps.size()); }  // of a block
  int end() const { return end_; }                                          // of the last block
  int BlockBegin(int step) const { return step / num_steps() * block_; }
  int BlockUnits(int step) const { return std::min(block_, num_units_ - BlockBegin(step)); }
  const std::vector<Nanos>& Times(int step) const { return chain_->step_ns[step % num_steps()]; }
  Nanos overhead_ns() const { return overhead_ns_; }
  // Whether a step begins an instruction even right after the one before it.
  bool StartsInstruction(int step) const {
    return step % num_steps() == 0 || chain_->steps[step % num_steps()].new_instruction;
  }
  // Of all steps before this one, in one go. O(1).
  Nanos TimeBefore(int step) const;

 private:
  // Element k: of the first k steps of a block of so many units.
  std::vector<Nanos> Sums(int units) const;

  const Chain* chain_;
  int index_;
  int num_units_;
  int block_;  // units of a block, but for the last one
  int end_ = 0;
  Nanos overhead_ns_;
  std::vector<Nanos> sums_, last_sums_;  // of a block, and of a last one that is smaller
};

class ChainProgress {
 public:
  // `batches` outlives this.
  explicit ChainProgress(const ChainBatches* batches) : batches_(batches) {}

  bool done() const { return step_ == batches_->end(); }

  // The next k full-batch steps take FullBatchTime(k), block by block, the first of which may be
  // the rest of a step that a partial batch began. O(1).
  Nanos FullBatchTime(int count) const;
  // The most of them that take no longer than `limit` together. O(log steps).
  int FullBatchSteps(Nanos limit) const;
  // All that is left, in one go.
  int StepsLeft() const { return batches_->end() - step_; }
  Nanos RestTime() const { return FullBatchTime(StepsLeft()); }

  // Takes the next `count` full-batch steps. `out` may be null.
  void Advance(int count, int gap, std::vector<Placement>* out);

  // The most units of the next step, short of all, that fit in `room` and save later at least
  // `worth` of the time that they take now; 0 for none.
  int PartialUnits(Nanos room, double worth) const;
  Nanos PartialTime(int units) const {
    return batches_->Times(step_)[units] + batches_->overhead_ns();
  }
  void AdvancePartially(int units, int gap, std::vector<Placement>* out);

  friend bool operator==(const ChainProgress& a, const ChainProgress& b) {
    return a.batches_ == b.batches_ && a.step_ == b.step_ && a.done_units_ == b.done_units_;
  }

 private:
  void Place(int step_begin, int step_end, int unit_begin, int unit_end, int gap,
             std::vector<Placement>* out) const;

  const ChainBatches* batches_;
  int step_ = 0;        // the first that not all units of its block have done
  int done_units_ = 0;  // of step_'s block that have done it
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_
