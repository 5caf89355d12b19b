// The frozen work of one step as the filler sees it: chains of steps, each with a cost per number
// of units.
//
// A unit is `quantum` samples, the grain at which frozen work is cut. A chain is what must stay on
// the device that began a sample: one frozen component, or several where one reads another's
// outputs, in an order that respects this. A chain's steps are its layers, each component's
// preceded by the loading of its inputs where that costs time. [algorithms.md §4]
#ifndef DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_
#define DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"

namespace dpipe {

inline constexpr int kLoadStep = -1;

struct WorkStep {
  int component = 0;            // index into the profile's components
  int layer = kLoadStep;        // of the component, or kLoadStep
  bool new_instruction = true;  // false where it continues the instruction of the step before it
};

struct Chain {
  std::vector<WorkStep> steps;
  // [step][units]: time of that step on so many units; 0 for 0 units.
  std::vector<std::vector<Nanos>> step_ns;
  // [units]: time of all steps on so many units.
  std::vector<Nanos> total_ns;
};

struct FrozenWork {
  std::vector<Chain> chains;
  int quantum = 1;                    // samples a unit
  int num_units = 0;                  // of each chain
  Nanos instruction_overhead_ns = 0;  // of each instruction, beside its steps' times
};

// The work of `num_units` units of every frozen component; each instruction costs the profile's
// launch overhead beside its steps.
FrozenWork MakeFrozenWork(const CostModel& cost, int num_units);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_
