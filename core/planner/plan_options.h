// What a user requests of a plan in addition to a strategy.
#ifndef DPIPE_CORE_PLANNER_PLAN_OPTIONS_H_
#define DPIPE_CORE_PLANNER_PLAN_OPTIONS_H_

#include <cstdint>

namespace dpipe {

inline constexpr int64_t kDefaultSimulationBudget = 1000000;

struct PlanOptions {
  int global_batch = 0;
  int num_stages = 0;            // S; 0: search
  int num_micro_batches = 0;     // M of one pipeline group; 0: search
  int micro_batch_size = 0;      // samples of a micro-batch of one pipeline group; 0: search
  int devices_per_pipeline = 0;  // D; 0: search
  int stages_per_device = 0;     // of schedules that leave it open; 0: their default
  bool global_norm = true;       // clip gradients by their global norm: see Plan.global_norm
  bool refine = true;            // "balanced" only: move single layers over stage boundaries
  bool exact = false;            // fill the chosen plan optimally; small instances only (exact.h)
  // The approximate number of instructions to lower and simulate. Other work on a candidate is
  // converted to instructions. What is left of a large search is judged by estimates. At least 1. A
  // search may take more in these cases:
  //
  //   - A strategy that tunes: up to three times the budget. Each simpler strategy that it is
  //     compared with has a budget of its own.
  //   - Plans of a strategy that tunes are large, or the budget ended its search: a part of the
  //     batch is searched with a budget of its own.
  //   - The numbers of stages and micro-batches are given: tuning the best few may take 5.5 times
  //     the budget, and tuning the best of them again 0.6 times. Joint searches (joint_search.h)
  //     may make 0.6 times as many moves of passes in addition.
  //   - They are not given and the best plan's step is well above its lower bound: tuning that plan
  //     may take 1.4 times the budget, and 0.12 times as many moves.
  int64_t simulation_budget = kDefaultSimulationBudget;
  int num_candidates = 5;  // how many to report
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PLAN_OPTIONS_H_
