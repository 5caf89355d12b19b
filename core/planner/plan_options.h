// What a user requests of a plan beside its strategy.
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
  bool global_norm = true;       // gradients are clipped by their global norm: see Plan.global_norm
  bool refine = true;            // "balanced" only: move single layers over stage boundaries
  bool exact = false;            // fill the chosen plan optimally: small instances only (exact.h)
  // How many instructions may be lowered and simulated, about, the other work of a candidate
  // counted in such; what is left of a large search is judged by estimates. A strategy that tunes
  // may take up to three times as many, and each simpler strategy that it is compared with has a
  // budget of its own. Where the number of stages and micro-batches is given, tuning the best few
  // may take more: 5.5 times as many, the best of them once more 0.6 times as many, and joint
  // searches (joint_search.h) 0.6 times as many moves of passes beside them. Where it is not, and
  // the best plan's step is well above its lower bound, that one may take 1.4 times as many, and
  // 0.12 times as many moves. At least 1.
  int64_t simulation_budget = kDefaultSimulationBudget;
  int num_candidates = 5;  // how many to report
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PLAN_OPTIONS_H_
