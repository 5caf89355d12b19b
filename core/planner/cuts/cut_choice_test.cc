#include "core/planner/cuts/cut_choice.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/testing/brute_force.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// If messages, syncs and optimizer steps are free, the step is the order's makespan.
TEST(OrderedStepTest, EqualsTheMakespan) {
  RandomStream random(61, 0, 0, RandomPurpose::kTest);
  for (const char* name : {"1f1b", "gpipe", "zb-h1", "zb-v", "v-half", "dualpipe-v", "chimera"}) {
    for (int round = 0; round < 20; ++round) {
      const int p = 2 * (1 + static_cast<int>(random.NextBelow(3)));
      const Schedule schedule = NamedSchedule(name, RequestOf(p, 2 * p));
      const std::vector<Nanos> none(schedule.num_stages(), 0);
      const std::vector<PassCosts> costs =
          RandomPassCosts(schedule.num_stages(), random, /*some_free=*/true);
      EXPECT_EQ(OrderedStep(schedule).StepNs({costs, none, none, none, none}),
                schedule.Makespan(costs))
          << name << " " << p;
    }
  }
}

TEST(OrderedStepTest, ByHand) {
  const Schedule schedule = NamedSchedule("1f1b", RequestOf(2, 1));
  OrderedStageTimes times;
  times.passes = {{10, 5, 5}, {20, 10, 10}};
  times.forward_delay_ns = {3, 0};
  times.gradient_delay_ns = {0, 4};
  times.sync_ns = {7, 100};
  times.optimizer_ns = {2, 30};
  // Stage 0 is ready at 2 and sends at 12. Stage 1, free from 30 on, ends at 70, and its sync at
  // 170. The gradient arrives at 74; stage 0 ends at 84, its sync at 91.
  EXPECT_EQ(OrderedStep(schedule).StepNs(times), 170);
  times.sync_ns = {7, 0};
  EXPECT_EQ(OrderedStep(schedule).StepNs(times), 91);
}

Strategy StrategyOf(const std::string& schedule, const std::string& partitioner,
                    const std::string& frozen) {
  Strategy strategy;
  strategy.set_name("test");
  strategy.set_schedule(schedule);
  strategy.set_partitioner(partitioner);
  strategy.set_frozen(frozen);
  strategy.set_recompute("none");
  strategy.set_sync("bucketed");
  strategy.set_cross_iteration(true);
  strategy.set_partial_batch(true);
  return strategy;
}

PipelineShape ShapeOf(const std::string& schedule, int devices, int micro_batches) {
  PipelineShape shape;
  shape.schedule = schedule;
  shape.num_devices = shape.devices_per_pipeline = shape.num_stages = devices;
  shape.num_micro_batches = shape.global_batch = micro_batches;
  return shape;
}

struct Instance {
  ModelProfile profile;
  ClusterSpec cluster;
  std::string frozen = "first";
};

// Uniform layers without messages, with messages and syncs, and filled.
Instance UniformInstance(RandomStream& random, int devices) {
  UniformProfileOptions options;
  options.num_layers = 2 * devices + static_cast<int>(random.NextBelow(6 * devices));
  Instance instance;
  instance.cluster = IdealCluster(devices);
  if (random.NextBelow(2) == 0) {
    options.value_bytes = 1000 * random.NextBelow(1000);
    options.parameter_bytes = 1000 * random.NextBelow(1000);
    options.frozen_layers = static_cast<int>(random.NextBelow(3));
    instance.cluster = RandomCluster(random, devices);
    for (Link* link :
         {instance.cluster.mutable_intra_node(), instance.cluster.mutable_inter_node()}) {
      link->set_latency_ns(random.NextBelow(500));
      link->set_bandwidth_bytes_per_s(1e12);
    }
    if (random.NextBelow(2) == 0) instance.frozen = "fill";
  }
  instance.profile = UniformProfile(options);
  return instance;
}

Instance RandomInstance(RandomStream& random, int devices) {
  RandomProfileOptions options;
  options.min_layers = 2 * devices;
  options.max_layers = 10 * devices;
  Instance instance;
  instance.profile = RandomProfile(random, options);
  instance.cluster = RandomCluster(random, devices);
  if (random.NextBelow(2) == 0) instance.frozen = "fill";
  return instance;
}

TEST(CutChoiceTest, NoPlanIsSlowerThanWithAnEvenCut) {
  RandomStream random(62, 0, 0, RandomPurpose::kTest);
  std::map<std::string, int> compared, faster;
  for (int round = 0; round < 60; ++round) {
    const int p = round % 20 == 0   ? 12
                  : round % 10 == 0 ? 8
                                    : 2 + static_cast<int>(random.NextBelow(4));
    const Instance instance =
        round % 2 == 0 ? UniformInstance(random, p) : RandomInstance(random, p);
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    for (const char* name :
         {"1f1b", "zb-h1", "interleaved", "zb-v", "v-half", "v-min", "dualpipe-v", "wave"}) {
      const PipelineShape shape = ShapeOf(name, p, p * (2 + static_cast<int>(random.NextBelow(3))));
      Nanos steps[2] = {0, 0};
      for (int i = 0; i < 2; ++i) {
        PlanBuilder builder(StrategyOf(name, i == 0 ? "balanced" : "uniform", instance.frozen), {},
                            cost);
        const absl::StatusOr<PipelineCut> cut = builder.Cut(shape);
        ASSERT_TRUE(cut.ok()) << cut.status();
        steps[i] = builder.Build(shape, *cut)->step_ns;
      }
      EXPECT_LE(static_cast<double>(steps[0]), 1.001 * static_cast<double>(steps[1]))
          << name << " round " << round;
      ++compared[name];
      faster[name] += static_cast<double>(steps[0]) < 0.99 * static_cast<double>(steps[1]);
    }
  }
  for (const auto& [name, count] : compared) EXPECT_GT(faster[name], count / 3) << name;
}

// Simulates every cut.
TEST(CutChoiceTest, MostCutsAreTheBestOfAll) {
  RandomStream random(77, 0, 0, RandomPurpose::kTest);
  for (const auto& [name, most_missed, most_over] :
       {std::make_tuple("1f1b", 3, 0.02), std::make_tuple("zb-h1", 3, 0.02),
        std::make_tuple("zb-v", 10, 0.06), std::make_tuple("v-half", 14, 0.07)}) {
    const int chunks = std::string(name).find('v') != std::string::npos ? 2 : 1;
    int missed = 0;
    for (int round = 0; round < 40; ++round) {
      const int p = 2 + static_cast<int>(random.NextBelow(chunks == 2 ? 2 : 3));
      RandomProfileOptions options;
      options.min_layers = chunks * p;
      options.max_frozen_components = 0;
      const ModelProfile profile = RandomProfile(random, options);
      const CostModel cost =
          *CostModel::Create(profile, round % 2 == 0 ? IdealCluster(p) : RandomCluster(random, p));
      const PipelineShape shape = ShapeOf(name, p, p * (1 + static_cast<int>(random.NextBelow(3))));
      PlanBuilder builder(StrategyOf(name, "balanced", "first"), {}, cost);
      PipelineCut cut = *builder.Cut(shape);
      const Nanos got = builder.Build(shape, cut)->step_ns;
      cut.schedule = nullptr;
      Nanos best = got;
      ForEachPartition(cost.num_layers(cost.backbone()), chunks * p,
                       [&](const std::vector<LayerRange>& stages) {
                         cut.stages = {stages};
                         best = std::min(best, builder.Build(shape, cut)->step_ns);
                       });
      missed += got > best;
      EXPECT_LE(static_cast<double>(got), (1 + most_over) * static_cast<double>(best))
          << name << " round " << round;
    }
    EXPECT_LE(missed, most_missed) << name;
  }
}

}  // namespace
}  // namespace dpipe
