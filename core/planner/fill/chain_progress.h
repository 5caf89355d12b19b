// How far one chain of frozen work has come on one device, and what it could do next.
//
// All of the device's units pass a step before the first of them begins the next one; a step may be
// split over gaps into partial batches.
#ifndef DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_
#define DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/pack.h"

namespace dpipe {

class ChainProgress {
 public:
  // `work` outlives this.
  ChainProgress(const FrozenWork& work, int chain, int num_units)
      : chain_(&work.chains[chain]),
        index_(chain),
        num_units_(num_units),
        overhead_ns_(work.instruction_overhead_ns),
        step_(num_units == 0 ? num_steps() : 0) {}

  bool done() const { return step_ == num_steps(); }

  // [k]: the time of the next k full-batch steps, the first of which may be the rest of a step that
  // a partial batch began. Stops at the first that is longer than `limit`.
  std::vector<Nanos> FullBatchTimes(Nanos limit) const;
  // Of all that is left, in one go.
  Nanos RestTime() const;

  // Takes the next `count` full-batch steps.
  void Advance(int count, int gap, std::vector<Placement>& out);

  // The most units of the next step, short of all, that fit in `room` and save later at least
  // `worth` of the time that they take now; 0 for none.
  int PartialUnits(Nanos room, double worth) const;
  Nanos PartialTime(int units) const { return chain_->step_ns[step_][units] + overhead_ns_; }
  void AdvancePartially(int units, int gap, std::vector<Placement>& out);

  friend bool operator==(const ChainProgress& a, const ChainProgress& b) {
    return a.index_ == b.index_ && a.step_ == b.step_ && a.done_units_ == b.done_units_;
  }

 private:
  int num_steps() const { return static_cast<int>(chain_->steps.size()); }
  Nanos StepTime(int step) const;

  const Chain* chain_;
  int index_;
  int num_units_;
  Nanos overhead_ns_;
  int step_;            // the first step that not all units have done
  int done_units_ = 0;  // units that have
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_CHAIN_PROGRESS_H_
