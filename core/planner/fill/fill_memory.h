// What a rank would hold at most if some frozen work were placed on it: the memory model of
// core/schedule/memory/memory.h, applied to the rank's list with the items in it.
//
// Messages of outputs are not known yet; the rank is taken to send all outputs that it computes and
// to receive all others that its stages read, right before the optimizer step, as they are without
// and with a flush. [algorithms.md §4]
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
  // `cost` outlives this. Copies the plan.
  FillMemory(const Plan& unfilled, const CostModel& cost);
  FillMemory(const FillMemory&) = delete;
  FillMemory& operator=(const FillMemory&) = delete;

  // `items`: the rank's, for the next step, by position.
  int64_t PeakBytes(int rank, const std::vector<FillItem>& items);

 private:
  DeviceProgram WithItems(int rank, const std::vector<FillItem>& items) const;
  void AppendMessages(int rank, const std::vector<FillItem>& items, DeviceProgram* program) const;

  const CostModel& cost_;
  Plan plan_;  // its lists change; what `memory_` derives from its stages does not depend on them
  PlanMemory memory_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_MEMORY_H_
