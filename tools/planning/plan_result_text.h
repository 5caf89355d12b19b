// Search results as text for a terminal.
#ifndef DPIPE_TOOLS_PLANNING_PLAN_RESULT_TEXT_H_
#define DPIPE_TOOLS_PLANNING_PLAN_RESULT_TEXT_H_

#include <string>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"

namespace dpipe::tools {

// Returns a report on the chosen plan: its stages, predicted step, throughput, bubbles before and
// after filling, ratio to the lower bound, and every device's memory. The candidates follow, each
// with the reason why it lost, and the planning time.
std::string PlanResultText(const PlanResult& result, const CostModel& cost, Nanos planning_ns);

// Returns a list of the named strategies with a summary of each, and of the schedules and
// partitioners that compositions may name.
std::string ListText();

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_PLAN_RESULT_TEXT_H_
