// Random plans for tests: layouts, schedules and frozen work of every policy.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_RANDOM_PLAN_H_
#define DPIPE_CORE_SCHEDULE_TESTING_RANDOM_PLAN_H_

#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct RandomPlanOptions {
  RandomProfileOptions profile;
  int max_devices = 4;  // of a schedule
  int max_stages_per_device = 2;
  int max_replicas = 2;
  int max_groups = 2;
  int max_micro_batches = 4;
  bool split_gradients = true;  // some schedules separate input from weight gradients
  // Some plans have several stages a device, two directions, two backbones or two laps; otherwise
  // every plan is one chain with a stage on each device.
  bool several_stages = true;
  bool recompute = true;       // some stages
  bool unlike_devices = true;  // some clusters
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

// All frozen work of the next step (or, with `step_offset` 0, of this one, at position 0) at random
// positions of random ranks, chains cut at random layers and samples; all components of a sample on
// one rank.
std::vector<FillItem> RandomFill(RandomStream& stream, const PipelineLayout& layout,
                                 const Plan& unfilled, const CostModel& cost, int step_offset);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_RANDOM_PLAN_H_
