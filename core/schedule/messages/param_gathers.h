// When a device with sharded stages gathers and releases parameters.
//
// Each pass of a device reads one part of its layers, and that part must be gathered first. Every
// part is gathered one pass ahead, so that the collective overlaps a pass. It is released
//   - under ZeRO-3 after a pass, unless one of the next two passes reads it again;
//   - under ZeRO-1 after the last pass that reads it, so it is gathered once per step.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"

namespace dpipe {

struct PassGathers {
  std::vector<int> before;  // this pass or the next: gather their parts before this pass
  bool release = false;     // true: release this pass's part after it
};

// Returns the gathers and releases of each pass. `parts` holds the part number that each pass
// reads; `once` selects ZeRO-1. At most three parts are held at a time, or all of them with `once`.
std::vector<PassGathers> PlanGathers(const std::vector<int>& parts, bool once = false);

// Returns the bytes that a gather of these layers moves and then holds: their weights in the
// profile's dtype; if `keeps_frozen` (Stage.keeps_frozen_weights), only those that are trained.
int64_t GatheredBytes(const CostModel& cost, int component, LayerRange layers, bool keeps_frozen);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_
