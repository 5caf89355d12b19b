// What a search found, for a terminal.
#ifndef DPIPE_TOOLS_PLAN_RESULT_TEXT_H_
#define DPIPE_TOOLS_PLAN_RESULT_TEXT_H_

#include <string>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"

namespace dpipe::tools {

// The chosen plan: its stages, predicted step, throughput, bubbles before and after filling, its
// distance to the lower bound, memory of every device; then the candidates and why each lost, and
// how long planning took.
std::string PlanResultText(const PlanResult& result, const CostModel& cost, Nanos planning_ns);

// The strategies with what each is, the schedules and the partitioners that compositions may name.
std::string ListText();

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLAN_RESULT_TEXT_H_
