// Checks that a search is at least as fast as one with even cuts or with cuts of minimum bound.
#include <map>
#include <string>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/search.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Instance {
  ModelProfile profile;
  ClusterSpec cluster;
  PlanOptions options;
};

// Uniform layers or random ones, with ideal links or random ones; S and M are given half of the
// time.
Instance RandomInstance(RandomStream& random) {
  Instance instance;
  const int devices = 2 << random.NextBelow(3);
  const int layers = 2 * devices + static_cast<int>(random.NextBelow(4 * devices));
  if (random.NextBelow(2) == 0) {
    UniformProfileOptions uniform;
    uniform.num_layers = layers;
    uniform.value_bytes = 1000 * random.NextBelow(1000);
    uniform.parameter_bytes = 1000 * random.NextBelow(1000);
    uniform.frozen_layers = static_cast<int>(random.NextBelow(3));
    instance.profile = UniformProfile(uniform);
  } else {
    RandomProfileOptions options;
    options.min_layers = options.max_layers = layers;
    instance.profile = RandomProfile(random, options);
  }
  instance.cluster =
      random.NextBelow(2) == 0 ? IdealCluster(devices) : RandomCluster(random, devices);
  instance.options.global_batch = devices * (1 << random.NextBelow(4));
  instance.options.simulation_budget = 200000;
  if (random.NextBelow(2) == 0) {
    instance.options.num_stages = instance.options.devices_per_pipeline = devices;
    instance.options.num_micro_batches = instance.options.global_batch;
  }
  return instance;
}

Nanos StepOf(const Instance& instance, const std::string& schedule, const std::string& frozen,
             const std::string& partitioner) {
  Strategy strategy;
  strategy.set_name("test");
  strategy.set_schedule(schedule);
  strategy.set_partitioner(partitioner);
  strategy.set_frozen(frozen);
  strategy.set_sync("bucketed");
  strategy.set_cross_iteration(true);
  strategy.set_partial_batch(true);
  const absl::StatusOr<PlanResult> result =
      MakePlan(strategy, instance.profile, instance.cluster, instance.options);
  return result.ok() ? result->expected_step_ns : 0;
}

TEST(SearchSimplerCutsTest, NoPlanIsSlowerThanWithSimplerCuts) {
  RandomStream random(63, 0, 0, RandomPurpose::kTest);
  std::map<std::string, int> compared, faster;  // by partitioner
  for (int round = 0; round < 40; ++round) {
    const Instance instance = RandomInstance(random);
    for (const std::string schedule :
         {"1f1b", "zb-h1", "zb-auto", "interleaved", "zb-v", "v-half", "v-min", "dualpipe-v"}) {
      const std::string frozen = random.NextBelow(3) == 0 ? "fill" : "first";
      const Nanos chosen = StepOf(instance, schedule, frozen, "balanced");
      for (const std::string partitioner : {"uniform", "by_bound"}) {
        const Nanos simpler = StepOf(instance, schedule, frozen, partitioner);
        if (simpler == 0) continue;
        EXPECT_GT(chosen, 0) << schedule << ", round " << round;
        EXPECT_LE(chosen, simpler) << schedule << ", round " << round << ", frozen " << frozen
                                   << ", " << partitioner << ", S=" << instance.options.num_stages;
        ++compared[partitioner];
        faster[partitioner] += chosen < simpler;
      }
    }
  }
  for (const auto& [partitioner, count] : compared) {
    EXPECT_GT(count, 250) << partitioner;
  }
  EXPECT_GT(faster["uniform"], compared["uniform"] / 3);
  EXPECT_GT(faster["by_bound"], compared["by_bound"] / 2);
}

}  // namespace
}  // namespace dpipe
