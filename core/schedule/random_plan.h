// Random plans for tests: layouts, schedules and frozen work of every policy.
#ifndef DPIPE_CORE_SCHEDULE_RANDOM_PLAN_H_
#define DPIPE_CORE_SCHEDULE_RANDOM_PLAN_H_

#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/fake_profile.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lower.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct RandomPlanOptions {
  RandomProfileOptions profile;
  int max_stages = 4;
  int max_replicas = 2;
  int max_groups = 2;
  int max_micro_batches = 5;
  bool split_gradients = true;  // some schedules separate input from weight gradients
};

// Everything that a plan is made from, and the plan.
struct RandomInstance {
  ModelProfile profile;
  ClusterSpec cluster;
  PipelineLayout layout;
  Schedule schedule;
  LowerOptions options;
  Plan plan;
};

// A valid plan of a random profile; never fails.
RandomInstance MakeRandomInstance(RandomStream& stream, const RandomPlanOptions& options = {});

// A random order that Schedule::Verify accepts: stages take slots that are ready, in random turns.
Schedule RandomSchedule(RandomStream& stream, int num_stages, int num_micro_batches,
                        bool split_gradients);

// All frozen work of the next step (or, with `step_offset` 0, of this one, at position 0) at random
// positions of random ranks, chains cut at random layers and samples; all components of a sample on
// one rank.
std::vector<FillItem> RandomFill(RandomStream& stream, const PipelineLayout& layout,
                                 const Plan& unfilled, const CostModel& cost, int step_offset);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_RANDOM_PLAN_H_
