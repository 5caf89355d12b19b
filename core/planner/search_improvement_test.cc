// Checks that a search keeps what improving its best candidates finds.
#include <string>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/search.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Strategy Tuning(const std::string& schedules) {
  Strategy strategy;
  strategy.set_name("tuning");
  strategy.set_partitioner("balanced");
  strategy.set_schedule(schedules);
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  strategy.set_tune(true);
  return strategy;
}

PlanResult PlanOf(const Strategy& strategy, int seed, const PlanOptions& options) {
  RandomStream random(31, seed, 0, RandomPurpose::kTest);
  RandomProfileOptions profile;
  profile.min_layers = profile.max_layers = 20;
  return *MakePlan(strategy, RandomProfile(random, profile), IdealCluster(4), options);
}

PlanOptions Batch(int global_batch) {
  PlanOptions options;
  options.global_batch = global_batch;
  options.simulation_budget = 50000;
  return options;
}

// A search over S and M tunes its best candidate as well as a search with that shape given.
TEST(SearchImprovementTest, OpenShapeIsTunedLikeAGivenOne) {
  int improved = 0, equal = 0;
  for (int seed = 0; seed < 5; ++seed) {
    for (const char* schedules : {"zb-auto", "1f1b|zb-v"}) {
      const PlanResult open = PlanOf(Tuning(schedules), seed, Batch(32));
      PlanOptions options = Batch(32);
      options.num_stages = open.candidates[0].num_stages;
      options.num_micro_batches = open.candidates[0].num_micro_batches;
      options.devices_per_pipeline = open.candidates[0].devices_per_pipeline;
      const Nanos given_ns = PlanOf(Tuning(schedules), seed, options).expected_step_ns;
      options.refine = false;
      const Nanos plain_ns = PlanOf(Tuning(schedules), seed, options).expected_step_ns;
      EXPECT_LE(open.expected_step_ns, 1.01 * given_ns) << schedules << ", seed " << seed;
      EXPECT_LE(open.expected_step_ns, plain_ns) << schedules << ", seed " << seed;
      equal += open.expected_step_ns <= given_ns;
      improved += open.expected_step_ns < plain_ns;
    }
  }
  EXPECT_EQ(equal, 10);
  // The other cuts are chosen so well that tuning finds nothing (cut_choice.h).
  EXPECT_GE(improved, 4);
}

}  // namespace
}  // namespace dpipe
