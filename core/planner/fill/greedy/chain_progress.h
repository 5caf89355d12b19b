// Progress of one chain of frozen work on one device, and the batches that may run next.
//
// The device's units form blocks of at most `max_batch` units. One block after another passes the
// whole chain. Within a block, all units finish a step before any of them begins the next one. A
// step may be split over several gaps into partial batches.
//
// ChainBatches holds the constant part, with prefix sums of the steps' times. A ChainProgress is
// small and refers to a ChainBatches, so that a search can copy it cheaply.
#ifndef DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_
#define DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_

#include <algorithm>
#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/pack.h"

namespace dpipe {

// A device's units of one chain. Steps are numbered across blocks: step i is step i % num_steps of
// block i / num_steps.
class ChainBatches {
 public:
  // `work` must outlive this. `max_batch` 0: one block of all units. Time O(steps).
  ChainBatches(const FrozenWork& work, int chain, int num_units, int max_batch);
  ChainBatches(const ChainBatches&) = delete;  // first_sums_ refers to a member
  ChainBatches& operator=(const ChainBatches&) = delete;

  int chain() const { return index_; }
  int num_steps() const { return num_steps_; }  // per block
  int end() const { return end_; }              // one past the last step of the last block
  // Most chains have one block, so the block of a step is divided out only if there are more.
  int BlockOf(int step) const { return step < num_steps_ ? 0 : step / num_steps_; }
  int StepInBlock(int step) const { return step < num_steps_ ? step : step % num_steps_; }
  int BlockBegin(int step) const { return BlockOf(step) * block_; }
  int BlockUnits(int step) const { return std::min(block_, num_units_ - BlockBegin(step)); }
  const std::vector<Nanos>& Times(int step) const { return chain_->step_ns[StepInBlock(step)]; }
  Nanos overhead_ns() const { return overhead_ns_; }
  // True if a step begins an instruction even if it runs right after the step before it.
  bool StartsInstruction(int step) const {
    const int in_block = StepInBlock(step);
    return in_block == 0 || chain_->steps[in_block].new_instruction;
  }
  // Returns the time of all steps before this one, run without interruption. O(1).
  Nanos TimeBefore(int step) const {
    if (step <= num_steps_) return first_sums_[step];
    // Uses the sums of the block that holds step - 1; at a block boundary this is the earlier one.
    const int block = (step - 1) / num_steps_, in_block = step - block * num_steps_;
    const bool is_last = !last_sums_.empty() && (block + 1) * num_steps_ == end_;
    return block * sums_.back() + (is_last ? last_sums_ : sums_)[in_block];
  }

 private:
  // Returns prefix sums: element k is the time of the first k steps of a block of `units` units.
  std::vector<Nanos> Sums(int units) const;

  const Chain* chain_;
  int index_;
  int num_steps_;
  int num_units_;
  int block_;  // units per block; the last block may have fewer
  int end_ = 0;
  Nanos overhead_ns_;
  // Prefix sums of a full block, and of the last block if it is smaller (else empty).
  std::vector<Nanos> sums_, last_sums_;
  const Nanos* first_sums_;  // those of the first block; of no units: a zero
};

using BatchesOfChains = std::vector<const ChainBatches*>;

class ChainProgress {
 public:
  // `batches` must outlive this.
  explicit ChainProgress(const ChainBatches* batches) : batches_(batches) {}

  bool done() const { return step_ == batches_->end(); }

  // Returns the time of the next `count` full-batch steps, block by block. The first one may be the
  // rest of a step that a partial batch began. O(1).
  Nanos FullBatchTime(int count) const {
    if (count == 0) return 0;
    const ChainBatches& b = *batches_;
    Nanos ns = b.TimeBefore(step_ + count) - b.TimeBefore(step_);
    // The first step always begins an instruction, and it may be the rest of a partial batch.
    if (!b.StartsInstruction(step_)) ns += b.overhead_ns();
    return done_units_ == 0 ? ns : ns + PartialBatchChange(count);
  }
  // Returns the maximum number of full-batch steps that take at most `limit` together.
  // O(log steps).
  int FullBatchSteps(Nanos limit) const;
  // The number and the time of all remaining full-batch steps.
  int StepsLeft() const { return batches_->end() - step_; }
  Nanos RestTime() const { return FullBatchTime(StepsLeft()); }

  // Takes the next `count` full-batch steps. Appends their placements to `out` if it is not null.
  void Advance(int count, int gap, std::vector<Placement>* out);

  // Returns the maximum number of units of the next step, less than all, that fit in `room`.
  // Returns 0 if none fit or if the batch later saves less than `worth` times its own time.
  int PartialUnits(Nanos room, double worth) const;
  Nanos PartialTime(int units) const {
    return batches_->Times(step_)[units] + batches_->overhead_ns();
  }
  void AdvancePartially(int units, int gap, std::vector<Placement>* out);

  friend bool operator==(const ChainProgress& a, const ChainProgress& b) {
    return a.batches_ == b.batches_ && a.step_ == b.step_ && a.done_units_ == b.done_units_;
  }

 private:
  // Returns how much longer the next `count` full-batch steps take because some units have done the
  // first one already. Negative if they take less.
  Nanos PartialBatchChange(int count) const;
  void Place(int step_begin, int step_end, int unit_begin, int unit_end, int gap,
             std::vector<Placement>* out) const;

  const ChainBatches* batches_;
  int step_ = 0;        // the first step that some units of its block have not done
  int done_units_ = 0;  // units of that block that have done it
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_GREEDY_CHAIN_PROGRESS_H_
