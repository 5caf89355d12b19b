// Random plans for tests: random layouts and schedules, and frozen work under every policy.
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
  int max_devices = 4;  // of the schedule
  int max_stages_per_device = 2;
  int max_replicas = 2;
  int max_groups = 2;
  int max_micro_batches = 4;
  bool split_gradients = true;  // some schedules split input from weight gradients
  // True: some plans have several stages per device, two directions, two backbones or two laps.
  // False: every plan is one chain with one stage on each device.
  bool several_stages = true;
  bool recompute = true;  // some stages recompute
  bool heterogeneous_devices =
      true;  // some clusters have several classes of devices, or shared links
};

// A plan and everything that it is made from.
struct RandomInstance {
  ModelProfile profile;
  ClusterSpec cluster;
  PipelineLayout layout;
  Schedule schedule;
  LowerOptions options;
  Plan plan;
};

// Returns a valid plan of a random profile. Never fails.
RandomInstance MakeRandomInstance(RandomStream& stream, const RandomPlanOptions& options = {});

// Returns all frozen work of the next step (`step_offset` 1) at random positions of random ranks,
// or of the current step (`step_offset` 0) at position 0. Chains are cut at random layers and
// samples. All components of a sample run on the same rank.
std::vector<FillItem> RandomFill(RandomStream& stream, const PipelineLayout& layout,
                                 const Plan& unfilled, const CostModel& cost, int step_offset);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_RANDOM_PLAN_H_
