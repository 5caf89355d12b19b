// When a device of sharded stages gathers and releases parameters.
//
// A device's passes over parts of its layers, in order, each need one part gathered. Each part is
// gathered one pass ahead, so that the collective runs beside a pass. It is released after a pass
// unless one of the next two needs it again (ZeRO-3), or after the last pass that needs it (ZeRO-1:
// every part is gathered once a step).
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"

namespace dpipe {

struct PassGathers {
  std::vector<int> before;  // passes (this one or the next) whose parts are gathered before it
  bool release = false;     // whether its part is released after it
};

// `parts`: by pass, the number of the part that it needs. At most three parts are held at once, or,
// with `once`, all of them.
std::vector<PassGathers> GathersOf(const std::vector<int>& parts, bool once = false);

// What gathering these layers moves and then holds: weights in the profile's dtype.
int64_t GatheredBytes(const CostModel& cost, int component, LayerRange layers);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_PARAM_GATHERS_H_
