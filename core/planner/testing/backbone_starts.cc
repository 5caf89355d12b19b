#include "core/planner/testing/backbone_starts.h"

#include <algorithm>
#include <map>

#include "core/sim/simulator.h"

namespace dpipe {

std::vector<std::vector<Nanos>> BackboneStarts(const Plan& plan, const CostModel& cost) {
  const Simulation simulation = *SimulateSteadyState(plan, cost);
  Nanos origin = 0;
  std::vector<std::map<int, Nanos>> starts(plan.devices_size());
  for (const StreamEvent& event : simulation.events) {
    if (event.stream != TraceEvent::COMPUTE) continue;
    const Instruction::Kind kind = plan.devices(event.rank).instructions(event.instruction).kind();
    if (event.step == 0 && kind == Instruction::OPTIMIZER_STEP) {
      origin = std::max(origin, event.start_ns);
    }
    if (event.step == 1 && (kind == Instruction::FORWARD || kind == Instruction::BACKWARD)) {
      starts[event.rank][event.instruction] = event.start_ns;
    }
  }
  std::vector<std::vector<Nanos>> in_order(plan.devices_size());
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (const auto& [instruction, start] : starts[r]) in_order[r].push_back(start - origin);
  }
  return in_order;
}

}  // namespace dpipe
