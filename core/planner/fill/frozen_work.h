// The frozen work of one training step, as input to the filler: chains of work steps, with a cost
// per number of units. [algorithms.md §4]
//
// A unit is `quantum` samples, the smallest amount of frozen work that is placed. A chain is the
// work on a sample that must stay on one device: a frozen component, or several components that
// read each other's outputs, producers first. A chain's steps are, per component, the loading of
// its inputs and then its layers.
#ifndef DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_
#define DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"

namespace dpipe {

inline constexpr int kLoadStep = -1;

struct WorkStep {
  int component = 0;            // index into the profile's components
  int layer = kLoadStep;        // layer of the component, or kLoadStep
  bool new_instruction = true;  // false if it continues the instruction of the previous step
};

struct Chain {
  std::vector<WorkStep> steps;
  // [step][units]: time of that step on that many units; 0 for 0 units.
  std::vector<std::vector<Nanos>> step_ns;
  // [units]: time of all steps on that many units.
  std::vector<Nanos> total_ns;
};

struct FrozenWork {
  std::vector<Chain> chains;
  int quantum = 1;                    // samples per unit
  int num_units = 0;                  // units per chain
  Nanos instruction_overhead_ns = 0;  // per instruction, in addition to its steps' times
};

// Returns the work of `num_units` units of every frozen component. The instruction overhead is the
// profile's launch overhead.
FrozenWork MakeFrozenWork(const CostModel& cost, int num_units);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FROZEN_WORK_H_
