// Properties of every plan, on thousands of random small models and clusters.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/fill/fill.h"
#include "core/planner/fill/fill_plan.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/strategy.h"
#include "core/planner/testing/backbone_starts.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/verification/verify.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

template <typename T>
const T& Pick(RandomStream& random, const std::vector<T>& from) {
  return from[random.NextBelow(static_cast<uint32_t>(from.size()))];
}

struct Instance {
  ModelProfile profile;
  ClusterSpec cluster;
  int global_batch = 0;
};

Instance RandomInstance(RandomStream& random) {
  Instance instance;
  RandomProfileOptions options;
  options.frozen_quantum = 1 + random.NextBelow(2);
  instance.profile = RandomProfile(random, options);
  instance.cluster = RandomCluster(random, Pick<int>(random, {1, 2, 2, 3, 4, 6, 8}));
  const int devices = instance.cluster.num_nodes() * instance.cluster.devices_per_node();
  instance.global_batch = devices * Pick<int>(random, {1, 2, 4, 6}) * options.frozen_quantum;
  return instance;
}

Strategy RandomStrategy(RandomStream& random) {
  Strategy strategy;
  strategy.set_name("random");
  strategy.set_schedule(Pick(random, ScheduleNames()));
  if (random.NextBelow(3) == 0) strategy.set_schedule("1f1b|" + Pick(random, ScheduleNames()));
  strategy.set_partitioner(random.NextBelow(2) > 0 ? "balanced" : Pick(random, PartitionerNames()));
  strategy.set_frozen(Pick<std::string>(random, {"fill", "fill", "first", "cached"}));
  strategy.set_recompute(Pick<std::string>(random, {"none", "none", "full", "auto"}));
  strategy.set_sync(Pick<std::string>(random, {"bucketed", "end"}));
  strategy.set_partial_batch(random.NextBelow(3) > 0);
  strategy.set_cross_iteration(random.NextBelow(5) > 0);
  return strategy;
}

TEST(PlannerPropertyTest, EveryPlanVerifiesAndNoStepBeatsTheBound) {
  RandomStream random(21, 0, 0, RandomPurpose::kTest);
  int planned = 0, out_of_memory = 0;
  constexpr int kRounds = 700;
  for (int round = 0; round < kRounds; ++round) {
    Instance instance = RandomInstance(random);
    const bool limited = random.NextBelow(3) == 0;
    if (limited) instance.cluster.set_memory_bytes_per_device(10000 + random.NextBelow(100000));
    const Strategy strategy = RandomStrategy(random);
    PlanOptions options;
    options.global_batch = instance.global_batch;
    options.global_norm = random.NextBelow(3) > 0;
    const absl::StatusOr<PlanResult> result =
        MakePlan(strategy, instance.profile, instance.cluster, options);
    if (!result.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(result.status()) ||
                  (limited && absl::IsResourceExhausted(result.status())))
          << result.status();
      out_of_memory += absl::IsResourceExhausted(result.status());
      continue;
    }
    ++planned;
    const absl::Status verified = VerifyPlan(result->plan, instance.profile, instance.cluster);
    ASSERT_TRUE(verified.ok()) << "round " << round << ": " << verified;
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    ASSERT_GE(*SteadyStepTime(result->plan, cost), StepLowerBound(result->plan, cost).bound_ns)
        << "round " << round;
    const Prediction& prediction = result->plan.prediction();
    ASSERT_GE(prediction.bubble_ratio(), 0);
    ASSERT_LE(prediction.bubble_ratio(), 1);
  }
  EXPECT_GT(planned, kRounds / 2);
  EXPECT_GT(out_of_memory, 10);
}

struct Lowered {
  PipelineLayout layout;
  Schedule schedule;
  LowerOptions options;
};

// Returns a random pipeline of the instance's model, not filled.
Lowered RandomPipeline(RandomStream& random, const Instance& instance, const CostModel& cost) {
  const int all_devices = cost.num_devices();
  const int num_layers = cost.num_layers(cost.backbone());
  std::vector<std::pair<int, int>> shapes;  // D, S
  for (int d = 1; d <= all_devices; ++d) {
    for (int s = 1; s <= std::min(d, num_layers); ++s) {
      const int groups = all_devices / d;
      if (all_devices % d == 0 && d % s == 0 && instance.global_batch / groups % (d / s) == 0) {
        shapes.emplace_back(d, s);
      }
    }
  }
  const auto [devices, num_stages] = Pick(random, shapes);
  const int samples = instance.global_batch / (all_devices / devices);
  std::vector<int> counts;
  for (int m = 1; m <= samples; ++m) {
    if (samples % m == 0 && samples / m % (devices / num_stages) == 0) counts.push_back(m);
  }
  const int num_micro_batches = Pick(random, counts);
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_stages; ++s) {
    const int begin = s * num_layers / num_stages, end = (s + 1) * num_layers / num_stages;
    stages.push_back({{begin, end}, devices / num_stages});
  }
  PipelineLayout layout =
      StraightLayout(all_devices, num_micro_batches, samples / num_micro_batches, stages);
  LowerOptions options;
  options.frozen = FrozenPolicy::kFill;
  options.sync = random.NextBelow(2) > 0 ? SyncPolicy::kBucketed : SyncPolicy::kEnd;
  options.bucket_bytes = 1000;
  const std::string name = Pick<std::string>(random, {"1f1b", "gpipe"});
  return {std::move(layout), *MakeSchedule(name, {num_stages, num_micro_batches}), options};
}

bool HasFlush(const Plan& plan) {
  for (const Instruction& instruction : plan.devices(0).instructions()) {
    if (instruction.kind() == Instruction::FLUSH) return true;
  }
  return false;
}

TEST(PlannerPropertyTest, NoBackbonePassStartsLaterWithFilling) {
  RandomStream random(22, 0, 0, RandomPurpose::kTest);
  int filled_gaps = 0, flushed = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    Instance instance = RandomInstance(random);
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    Lowered lowered = RandomPipeline(random, instance, cost);
    const Plan alone = *LowerPlan(lowered.layout, lowered.schedule, lowered.options, cost);
    FillOptions fill;
    fill.partial_batch = random.NextBelow(3) > 0;
    const FilledPlan result =
        *FillPlan(lowered.layout, lowered.schedule, lowered.options, fill, cost);
    const Plan& filled = result.plan;
    flushed += HasFlush(filled);
    lowered.options.fill =
        *PlaceFrozenWork(alone, SimulateSteadyState(alone, cost)->events, cost, fill);
    for (const FillItem& item : lowered.options.fill) {
      filled_gaps += item.position + 1 < ComputeInstructions(alone.devices(item.rank)).size();
    }
    const std::vector<std::vector<Nanos>> expected = BackboneStarts(alone, cost);
    const std::vector<std::vector<Nanos>> starts = BackboneStarts(filled, cost);
    for (int r = 0; r < starts.size(); ++r) {
      ASSERT_EQ(starts[r].size(), expected[r].size());
      for (int i = 0; i < starts[r].size(); ++i) {
        ASSERT_LE(starts[r][i], expected[r][i])
            << "round " << round << " rank " << r << " pass " << i;
      }
    }
  }
  EXPECT_GT(filled_gaps, kRounds);
  // Most pipelines send outputs while the optimizer steps, some cannot.
  EXPECT_GT(flushed, kRounds / 50);
  EXPECT_LT(flushed, kRounds / 4);
}

// One pipeline group is simulated for all: the step of the whole plan is the same.
TEST(PlannerPropertyTest, OneGroupRepresentsAll) {
  RandomStream random(25, 0, 0, RandomPurpose::kTest);
  int compared = 0, equal = 0;
  for (int round = 0; round < 400; ++round) {
    Instance instance = RandomInstance(random);
    instance.cluster = RandomCluster(random, Pick<int>(random, {4, 8, 12}));
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    PipelineShape shape;
    shape.schedule = Pick<std::string>(random, {"1f1b", "gpipe", "zb-h1", "zb-v"});
    shape.num_devices = cost.num_devices();
    shape.devices_per_pipeline = shape.num_stages = Pick<int>(random, {2, 4});
    if (!cost.HasIdenticalGroups(shape.devices_per_pipeline)) continue;
    if (shape.num_groups() < 2) continue;
    shape.num_micro_batches = Pick<int>(random, {1, 2, 4, 8});
    shape.global_batch =
        shape.num_groups() * shape.num_micro_batches * 2 * instance.profile.frozen_quantum();
    Strategy strategy = RandomStrategy(random);
    strategy.set_partitioner("uniform");
    strategy.set_frozen(Pick<std::string>(random, {"fill", "first", "cached"}));
    PlanBuilder builder(strategy, {}, cost);
    const absl::StatusOr<PipelineCut> cut = builder.Cut(shape);
    if (!cut.ok()) continue;
    const absl::StatusOr<BuiltPlan> group = builder.Build(shape, *cut);
    ASSERT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<BuiltPlan> whole = builder.Build(shape, *cut, PlanBuilder::Extent::kWhole);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ++compared;
    equal += group->step_ns == whole->step_ns;
    // If a message and a reduction reach an interface at the same moment, their order depends on
    // the number of ranks; only tiny pipelines notice.
    EXPECT_NEAR(group->step_ns, whole->step_ns, 0.1 * whole->step_ns) << "round " << round;
  }
  EXPECT_GT(compared, 60);
  EXPECT_GT(equal, 0.97 * compared);
}

TEST(PlannerPropertyTest, FillingIsNeverSlowerThanRunningFrozenWorkFirst) {
  RandomStream random(23, 0, 0, RandomPurpose::kTest);
  int faster = 0, compared = 0;
  for (int round = 0; round < 500; ++round) {
    const Instance instance = RandomInstance(random);
    Strategy strategy = RandomStrategy(random);
    strategy.set_frozen("fill");
    PlanOptions options;
    options.global_batch = instance.global_batch;
    options.refine = false;
    const absl::StatusOr<PlanResult> filled =
        MakePlan(strategy, instance.profile, instance.cluster, options);
    if (!filled.ok()) continue;
    strategy.set_frozen("first");
    strategy.set_schedule(filled->candidates[0].schedule);
    options.num_stages = filled->candidates[0].num_stages;
    options.num_micro_batches = filled->plan.num_micro_batches();
    options.devices_per_pipeline = filled->plan.devices_per_pipeline();
    const absl::StatusOr<PlanResult> first =
        MakePlan(strategy, instance.profile, instance.cluster, options);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_LE(filled->plan.prediction().step_ns(), first->plan.prediction().step_ns())
        << "round " << round;
    ++compared;
    faster += filled->plan.prediction().step_ns() < first->plan.prediction().step_ns();
  }
  EXPECT_GT(compared, 250);
  EXPECT_GT(faster, compared / 4);
}

// Candidates that the search skips because of the bound could not have been better.
TEST(PlannerPropertyTest, NoSimulatedStepIsShorterThanTheBoundOfItsCut) {
  RandomStream random(26, 0, 0, RandomPurpose::kTest);
  std::map<std::string, int> compared;  // by strategy.shard()
  for (int round = 0; round < 3000; ++round) {
    Instance instance = RandomInstance(random);
    for (LayerProfile& layer : *instance.profile.mutable_components(0)->mutable_layers()) {
      // About as long as the passes.
      if (layer.kind() == TRAINABLE) layer.set_optimizer_step_ns(random.NextBelow(20000));
    }
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    Strategy strategy = RandomStrategy(random);
    strategy.set_schedule(Pick(random, ScheduleNames()));
    strategy.set_shard(Pick<std::string>(random, {"none", "zero1", "zero3"}));
    ShapeRequest request;
    request.schedule = strategy.schedule();
    request.num_devices = cost.num_devices();
    request.global_batch = instance.global_batch;
    request.frozen_quantum = cost.frozen_quantum();
    absl::Status why;
    const std::vector<PipelineShape> shapes = EnumerateShapes(request, &why);
    if (shapes.empty()) continue;
    PipelineShape shape = Pick(random, shapes);
    shape.sharding = ShardAlternatives(strategy)[0];
    BuildOptions options;
    options.global_norm = random.NextBelow(2) == 0;
    PlanBuilder builder(strategy, options, cost);
    const absl::StatusOr<PipelineCut> cut = builder.Cut(shape);
    if (!cut.ok()) continue;
    const absl::StatusOr<BuiltPlan> built = builder.Build(shape, *cut);
    if (!built.ok()) continue;
    ++compared[strategy.shard()];
    ASSERT_GE(built->step_ns, builder.LowerBound(shape, *cut))
        << "round " << round << ": " << strategy.ShortDebugString() << " S=" << shape.num_stages
        << " M=" << shape.num_micro_batches << " D=" << shape.devices_per_pipeline;
  }
  for (const char* shard : {"none", "zero1", "zero3"}) EXPECT_GT(compared[shard], 300) << shard;
}

// A chain of layers of uneven length, as fine-grained as a U-Net's. CPU times grow with the batch.
void AddFineChain(RandomStream& random, int num_layers, Nanos mean_ns, LayerKind kind,
                  ComponentProfile* component) {
  for (int l = 0; l < num_layers; ++l) {
    LayerProfile* layer = component->add_layers();
    layer->set_name("layer" + std::to_string(l));
    layer->set_kind(kind);
    LayerTiming* timing = layer->add_timings();
    timing->set_local_batch(1);
    const Nanos ns = mean_ns / 3 + random.NextBelow(static_cast<uint32_t>(4 * mean_ns / 3));
    timing->set_forward_ns(ns);
    timing->set_input_grad_ns(kind == FROZEN ? 0 : ns);
    timing->set_weight_grad_ns(kind == FROZEN ? 0 : ns);
    ValueProfile* value = component->add_values();
    value->set_name("x" + std::to_string(l));
    value->set_producer_layer(l);
    value->set_has_gradient(kind != FROZEN);
    if (kind == FROZEN) value->set_bytes_per_sample(4096);
    if (l + 1 < num_layers) {
      value->add_consumer_layers(l + 1);
    } else {
      value->set_is_output(kind == FROZEN);
    }
  }
}

// 40 trainable layers; an image encoder and a text encoder with 0.45 of their work together.
ModelProfile FineModel(RandomStream& random, int frozen_quantum) {
  ModelProfile model;
  model.set_frozen_quantum(frozen_quantum);
  model.set_launch_overhead_ns(3000);
  ComponentProfile* backbone = model.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  AddFineChain(random, 40, 300000, TRAINABLE, backbone);
  for (const auto& [name, num_layers, mean_ns] :
       {std::make_tuple("vae", 20, 650000), std::make_tuple("text", 14, 230000)}) {
    ComponentProfile* encoder = model.add_components();
    encoder->set_name(name);
    AddFineChain(random, num_layers, mean_ns, FROZEN, encoder);
    ValueProfile* input = model.mutable_components(0)->add_values();
    input->set_name(name);
    input->set_bytes_per_sample(4096);
    input->set_producer_layer(-1);
    input->add_consumer_layers(0);
    input->set_source_component(name);
    input->set_source_value("x" + std::to_string(num_layers - 1));
  }
  return model;
}

TEST(PlannerPropertyTest, FewBubblesAreLeftIfThereIsEnoughFrozenWork) {
  RandomStream random(24, 0, 0, RandomPurpose::kTest);
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_latency_ns(20000);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(4e9);
  Strategy strategy = RandomStrategy(random);
  strategy.set_schedule("1f1b");
  strategy.set_partitioner("balanced");
  strategy.set_frozen("fill");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  double sum = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const ModelProfile model = FineModel(random, Pick<int>(random, {1, 2, 4}));
    PlanOptions options;
    options.global_batch = 32;
    options.num_micro_batches = Pick<int>(random, {2, 4, 8, 16});
    const absl::StatusOr<PlanResult> result = MakePlan(strategy, model, cluster, options);
    ASSERT_TRUE(result.ok()) << result.status();
    const Prediction& prediction = result->plan.prediction();
    EXPECT_LT(prediction.bubble_ratio(), 0.05) << "round " << round;
    EXPECT_LT(prediction.step_ns(), 1.05 * prediction.lower_bound_ns()) << "round " << round;
    sum += prediction.bubble_ratio();
  }
  EXPECT_LT(sum / kRounds, 0.01);  // on average
}

}  // namespace
}  // namespace dpipe
