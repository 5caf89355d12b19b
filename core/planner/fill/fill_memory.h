// Peak memory of a rank if some frozen work were placed on it: the memory model of
// core/schedule/memory/memory.h, applied to the rank's instructions with the fill items inserted.
//
// The messages that exchange outputs are not known yet. The model assumes that the rank sends all
// outputs that it computes, and receives all other outputs that its stages read. Both happen right
// before the last instruction, the optimizer step, with or without a flush. [algorithms.md §4]
#ifndef DPIPE_CORE_PLANNER_FILL_FILL_MEMORY_H_
#define DPIPE_CORE_PLANNER_FILL_FILL_MEMORY_H_

#include <cstdint>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/placement/frozen_placement.h"

namespace dpipe {

class FillMemory {
 public:
  // `cost` must outlive this. Copies the plan.
  FillMemory(const Plan& unfilled, const CostModel& cost);
  FillMemory(const FillMemory&) = delete;
  FillMemory& operator=(const FillMemory&) = delete;

  // Returns the peak memory of `rank` with `items`: that rank's items for the next step, sorted by
  // position.
  int64_t PeakBytes(int rank, const std::vector<FillItem>& items);

 private:
  DeviceProgram WithItems(int rank, const std::vector<FillItem>& items) const;
  void AppendMessages(int rank, const std::vector<FillItem>& items, DeviceProgram* program) const;

  const CostModel& cost_;
  Plan plan_;  // PeakBytes() swaps instruction lists; `memory_` depends only on the stages
  PlanMemory memory_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_MEMORY_H_
