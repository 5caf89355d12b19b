#include "core/planner/search.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/plan_options.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/verification/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Strategy Make(const std::string& schedule, const std::string& frozen) {
  Strategy strategy;
  strategy.set_name(schedule + "+" + frozen);
  strategy.set_partitioner(schedule == "single" ? "none" : "balanced");
  strategy.set_schedule(schedule);
  strategy.set_frozen(frozen);
  strategy.set_sync("bucketed");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  return strategy;
}

PlanOptions Batch(int global_batch) {
  PlanOptions options;
  options.global_batch = global_batch;
  return options;
}

// 8 layers of 1 forward and 1 + 1 backward per sample, frozen work of `frozen_ns` per layer.
ModelProfile Model(int frozen_layers, Nanos frozen_ns) {
  UniformProfileOptions options;
  options.num_layers = 8;
  options.forward_ns = 1000;
  options.grad_ns = 1000;
  options.frozen_layers = frozen_layers;
  options.frozen_ns = frozen_ns;
  return UniformProfile(options);
}

TEST(SearchTest, OneFOneBOnTwoDevicesByHand) {
  // Two stages of 4 layers, 4 micro-batches of 2: (4 + 1) * (4 * 3000 * 2) ns, after frozen work of
  // 8 samples * 2 layers * 600 over 2 devices.
  PlanOptions options = Batch(8);
  options.num_micro_batches = 4;
  options.global_norm = false;  // its all-reduce would take a nanosecond
  const PlanResult result =
      *MakePlan(Make("1f1b", "first"), Model(2, 600), IdealCluster(2), options);
  EXPECT_EQ(result.plan.prediction().step_ns(), 5 * 24000 + 4800);
  EXPECT_EQ(result.plan.stages_size(), 2);
  EXPECT_EQ(result.plan.stages(0).layers().end(), 4);
  EXPECT_EQ(result.num_considered, 1);
  EXPECT_EQ(result.candidates[0].outcome, "chosen");
}

TEST(SearchTest, FrozenWorkRunsInPiecesIfMemoryIsShort) {
  // As above with twice the batch: (4 + 1) * (4 * 3000 * 4) ns for the backbone. A frozen layer
  // takes 100 bytes per sample, and 2400 ns on the 8 samples of a device or 1500 ns on 4 of them.
  PlanOptions options = Batch(16);
  options.num_micro_batches = 4;
  options.num_stages = 2;
  options.global_norm = false;
  ModelProfile profile = Model(2, 600);
  for (ComponentProfile& component : *profile.mutable_components()) {
    if (component.is_backbone()) continue;
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.set_workspace_bytes_per_sample(100);
      layer.clear_timings();
      for (const auto& [batch, ns] : {std::pair(1, 600), std::pair(4, 1500), std::pair(8, 2400)}) {
        LayerTiming* timing = layer.add_timings();
        timing->set_local_batch(batch);
        timing->set_forward_ns(ns);
      }
    }
  }
  ClusterSpec cluster = IdealCluster(2);
  for (const char* frozen : {"first", "first_stage"}) {
    const int share = std::string(frozen) == "first" ? 8 : 16;
    for (const int64_t limit : {0, 500}) {
      SCOPED_TRACE(testing::Message() << frozen << ", limit " << limit);
      cluster.set_memory_bytes_per_device(limit);
      const auto result = MakePlan(Make("1f1b", frozen), profile, cluster, options);
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_TRUE(VerifyPlan(result->plan, profile, cluster).ok());
      const int batch = limit == 0 ? share : 4;
      EXPECT_EQ(LargestFrozenBatch(result->plan), batch);
      if (share == 8) {
        const Nanos frozen_ns = limit == 0 ? 2 * 2400 : 2 * 2 * 1500;
        EXPECT_EQ(result->plan.prediction().step_ns(), 5 * 48000 + frozen_ns);
      }
    }
    cluster.set_memory_bytes_per_device(99);
    EXPECT_EQ(MakePlan(Make("1f1b", frozen), profile, cluster, options).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

// One device and one stage: without blocks, recomputation does not lower the peak. The step is one
// forward pass longer whatever the blocks.
TEST(SearchTest, BlocksFitAStageThatOthersDoNot) {
  UniformProfileOptions uniform;
  uniform.num_layers = 16;
  uniform.forward_ns = 1000;
  uniform.grad_ns = 1000;
  uniform.value_bytes = 10;
  uniform.saved_bytes = 100;
  const ModelProfile model = UniformProfile(uniform);
  ClusterSpec cluster = IdealCluster(1);
  cluster.set_memory_bytes_per_device(800);  // half of what all layers save
  PlanOptions options = Batch(2);
  options.num_micro_batches = 2;
  options.global_norm = false;
  Strategy strategy = Make("single", "first");
  EXPECT_EQ(MakePlan(strategy, model, cluster, options).status().code(),
            absl::StatusCode::kResourceExhausted);
  strategy.set_recompute("auto");
  const auto result = MakePlan(strategy, model, cluster, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(VerifyPlan(result->plan, model, cluster).ok());
  EXPECT_GE(result->plan.stages(0).recompute_cuts_size(), 2);
  EXPECT_EQ(result->plan.prediction().step_ns(), 2 * 16 * 4000);
  // Where the whole stage fits, it is restored at once.
  cluster.set_memory_bytes_per_device(1700);
  strategy.set_recompute("full");
  const auto whole = MakePlan(strategy, model, cluster, options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->plan.stages(0).recompute_cuts_size(), 0);
  EXPECT_TRUE(whole->plan.stages(0).recompute());
}

// Two devices, 16 layers of 100 MiB. A device holds 3,200 MiB of state in shards. Whole gradients
// take 1,600 MiB more, and fewer reductions.
TEST(SearchTest, ShardsAccumulateIfWholeGradientsDoNotFit) {
  UniformProfileOptions uniform;
  uniform.num_layers = 16;
  uniform.forward_ns = uniform.grad_ns = 1000;
  uniform.parameter_bytes = int64_t{100} << 20;
  const ModelProfile model = UniformProfile(uniform);
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e15);
  cluster.set_devices_share_memory(true);  // no memory for reductions
  PlanOptions options = Batch(8);
  options.num_micro_batches = 4;
  Strategy strategy = Make("single", "first");
  strategy.set_shard("zero3");
  const auto reductions = [&](int64_t limit) {
    cluster.set_memory_bytes_per_device(limit << 20);
    const auto result = MakePlan(strategy, model, cluster, options);
    if (!result.ok()) return 0;
    EXPECT_TRUE(VerifyPlan(result->plan, model, cluster).ok());
    int count = 0;
    for (const Instruction& i : result->plan.devices(0).instructions()) {
      count += i.kind() == Instruction::REDUCE_GRADS;
    }
    return count;
  };
  EXPECT_EQ(reductions(5200), 16);
  EXPECT_EQ(reductions(4800), 4 * 16);
  EXPECT_EQ(reductions(3700), 4 * 16);
  EXPECT_EQ(reductions(3200), 0);
}

// Adapters on two devices with a slow link. Gathering all weights takes most of a step, 2 times per
// micro-batch, or 3 times with recomputation. Without recomputation only 4 micro-batches fit: a
// sample saves 1,600 MiB. One that is recomputed is faster.
TEST(SearchTest, RecomputationMaySpareGathers) {
  UniformProfileOptions uniform;
  uniform.num_layers = 16;
  uniform.forward_ns = 1'000'000;
  uniform.grad_ns = 100'000;  // recomputation nearly doubles the work
  uniform.parameter_bytes = int64_t{100} << 20;
  uniform.saved_bytes = int64_t{100} << 20;
  ModelProfile model = UniformProfile(uniform);
  for (LayerProfile& layer : *model.mutable_components(0)->mutable_layers()) {
    layer.set_trainable_parameter_bytes(int64_t{1} << 20);
  }
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e10);
  cluster.set_memory_bytes_per_device(int64_t{3000} << 20);
  Strategy strategy = Make("single", "first");
  strategy.set_shard("zero3");
  strategy.set_recompute("auto");
  const auto free = MakePlan(strategy, model, cluster, Batch(8));
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_EQ(free->candidates[0].num_micro_batches, 1);
  EXPECT_TRUE(free->candidates[0].recompute);
  for (const int micro_batches : {1, 2, 4}) {
    PlanOptions options = Batch(8);
    options.num_micro_batches = micro_batches;
    const auto given = MakePlan(strategy, model, cluster, options);
    ASSERT_TRUE(given.ok()) << micro_batches << ": " << given.status();
    EXPECT_LE(free->expected_step_ns, given->expected_step_ns) << micro_batches;
  }
}

TEST(SearchTest, FillingHidesWhatFits) {
  // As above. Each device idles 24000 ns per step, more than the 4800 ns of its share.
  PlanOptions options = Batch(8);
  options.num_micro_batches = 4;
  options.global_norm = false;  // its all-reduce would take a nanosecond
  const PlanResult result =
      *MakePlan(Make("1f1b", "fill"), Model(2, 600), IdealCluster(2), options);
  EXPECT_EQ(result.plan.prediction().step_ns(), 5 * 24000);
  EXPECT_NEAR(result.plan.prediction().unfilled_bubble_ratio(), 0.2, 1e-9);
  EXPECT_NEAR(result.plan.prediction().bubble_ratio(), 1 - (192000 + 9600) / 240000.0, 1e-9);
}

TEST(SearchTest, WithEnoughFrozenWorkNoBubbleIsLeft) {
  // 0.45 of the training work is frozen, more than 1F1B's bubbles hold: the rest of it runs after
  // the flush, and the step is all compute over two devices.
  for (int micro_batches : {2, 4, 8, 16}) {
    PlanOptions options = Batch(32);
    options.num_micro_batches = micro_batches;
    const PlanResult result =
        *MakePlan(Make("1f1b", "fill"), Model(18, 600), IdealCluster(2), options);
    const Nanos ideal = 32 * (8 * 3000 + 18 * 600) / 2;
    EXPECT_GE(result.plan.prediction().step_ns(), ideal);
    EXPECT_LE(result.plan.prediction().step_ns(), ideal * 101 / 100) << micro_batches;
    EXPECT_LT(result.plan.prediction().bubble_ratio(), 0.01);
  }
}

TEST(SearchTest, TheFilledPlanBeatsTheUnfilledOnes) {
  const ModelProfile model = Model(18, 600);
  const auto step = [&](const std::string& schedule, const std::string& frozen) {
    return MakePlan(Make(schedule, frozen), model, IdealCluster(4), Batch(32))
        ->plan.prediction()
        .step_ns();
  };
  EXPECT_LT(step("1f1b", "fill"), step("1f1b", "first"));
  EXPECT_LT(step("gpipe", "fill"), step("gpipe", "first"));
  EXPECT_LT(step("1f1b", "cached"), step("1f1b", "fill"));
}

TEST(SearchTest, AlternativesOfSchedulesAreCompared) {
  // Free all-reduce: data parallelism has no bubble and wins.
  Strategy strategy = Make("single|1f1b", "cached");
  strategy.set_partitioner("balanced");
  const PlanResult result = *MakePlan(strategy, Model(2, 600), IdealCluster(2), Batch(8));
  EXPECT_EQ(result.plan.stages_size(), 1);
  EXPECT_EQ(result.candidates[0].schedule, "single");
}

TEST(SearchTest, AlternativesOfShardingAreCompared) {
  // Long optimizer steps, which four ranks share if the optimizer's state is divided.
  ModelProfile model = Model(2, 600);
  for (ComponentProfile& component : *model.mutable_components()) {
    for (LayerProfile& layer : *component.mutable_layers()) {
      if (layer.kind() == TRAINABLE) layer.set_optimizer_step_ns(40000);
    }
  }
  Strategy strategy = Make("1f1b|single", "fill");
  strategy.set_partitioner("balanced");
  const auto plan = [&](const std::string& shard) {
    strategy.set_shard(shard);
    return *MakePlan(strategy, model, IdealCluster(4), Batch(16));
  };
  const PlanResult whole = plan("none"), either = plan("none|zero1");
  EXPECT_EQ(whole.candidates[0].shard, "none");
  EXPECT_EQ(either.candidates[0].shard, "zero1");
  EXPECT_TRUE(either.plan.stages(0).sharded());
  EXPECT_LT(either.expected_step_ns, whole.expected_step_ns);
  const absl::Status verified = VerifyPlan(either.plan, model, IdealCluster(4));
  EXPECT_TRUE(verified.ok()) << verified;
}

TEST(SearchTest, DuplicatedWeightsAreNotDivided) {
  Strategy strategy = Make("1f1b|chimera", "fill");
  strategy.set_shard("none|zero1");
  PlanOptions options = Batch(16);
  options.num_candidates = 1000;
  const PlanResult result = *MakePlan(strategy, Model(2, 600), IdealCluster(4), options);
  int chimera = 0, sharded = 0;
  for (const PlanCandidate& candidate : result.candidates) {
    chimera += candidate.schedule == "chimera";
    sharded += candidate.shard == "zero1";
    EXPECT_FALSE(candidate.schedule == "chimera" && candidate.shard == "zero1");
  }
  EXPECT_GT(chimera, 0);
  EXPECT_GT(sharded, 0);
}

TEST(SearchTest, CompressionLeavesWholeGradientsAlone) {
  Strategy strategy = Make("1f1b", "first");
  strategy.set_shard("none|zero1");
  strategy.set_compress("l-greco");
  PlanOptions options = Batch(16);
  options.num_candidates = 1000;
  const PlanResult result = *MakePlan(strategy, Model(2, 600), IdealCluster(4), options);
  for (const PlanCandidate& candidate : result.candidates) EXPECT_EQ(candidate.shard, "none");
  strategy.set_shard("zero1");
  EXPECT_EQ(MakePlan(strategy, Model(2, 600), IdealCluster(4), options).status().message(),
            "strategy: compress='l-greco' and shard='zero1': only whole gradients are compressed");
}

TEST(SearchTest, UnsyncedUpdatesNeedOneRankPerStage) {
  Strategy strategy = Make("1f1b", "first");
  strategy.set_weights("stashed");
  strategy.set_update_every(1);
  const ModelProfile model = Model(2, 600);
  const absl::StatusOr<PlanResult> result = MakePlan(strategy, model, IdealCluster(8), Batch(16));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->plan.stages_size(), 8);
  PlanOptions options = Batch(16);
  options.num_stages = 4;
  EXPECT_EQ(
      MakePlan(strategy, model, IdealCluster(8), options).status().message(),
      "weights that are updated without a sync (sync_every=0) would drift apart on the 2 ranks "
      "of a stage, of 2 pipelines of 4 stages on 4 devices: set sync_every or request 8 "
      "stages");
  strategy.set_sync_every(2);
  EXPECT_TRUE(MakePlan(strategy, model, IdealCluster(8), options).ok());
}

TEST(SearchTest, RefinementMovesLayersIfTheSimulatedStepImproves) {
  // Cuts are chosen without considering frozen work in gaps, contention and shared interfaces.
  RandomProfileOptions sizes;
  sizes.min_layers = sizes.max_layers = 12;
  int improved = 0;
  for (int seed = 0; seed < 60; ++seed) {
    RandomStream random(41, seed, 0, RandomPurpose::kTest);
    const ModelProfile model = RandomProfile(random, sizes);
    const ClusterSpec cluster = RandomCluster(random, 4);
    PlanOptions options = Batch(8);
    options.num_stages = 4;
    const Nanos refined = MakePlan(Make("1f1b", "fill"), model, cluster, options)->expected_step_ns;
    options.refine = false;
    const Nanos plain = MakePlan(Make("1f1b", "fill"), model, cluster, options)->expected_step_ns;
    EXPECT_LE(refined, plain) << seed;
    improved += refined < plain;
  }
  EXPECT_GE(improved, 5);
}

TEST(SearchTest, ReportsWhyOtherCandidatesLost) {
  PlanOptions options = Batch(16);
  options.num_candidates = 100;
  const PlanResult result =
      *MakePlan(Make("1f1b", "first"), Model(2, 600), IdealCluster(4), options);
  EXPECT_EQ(result.candidates.size(), result.num_considered);
  EXPECT_EQ(result.candidates[0].outcome, "chosen");
  for (int i = 1; i < result.candidates.size(); ++i) {
    EXPECT_NE(result.candidates[i].outcome, "");
    EXPECT_NE(result.candidates[i].outcome, "chosen");
  }
}

TEST(SearchTest, IsDeterministic) {
  RandomStream random(3, 0, 0, RandomPurpose::kTest);
  const ModelProfile model = RandomProfile(random);
  const ClusterSpec cluster = RandomCluster(random, 4);
  const auto serialized = [&] {
    return MakePlan(Make("1f1b", "fill"), model, cluster, Batch(16))->plan.SerializeAsString();
  };
  EXPECT_EQ(serialized(), serialized());
}

std::string Error(const Strategy& strategy, const ModelProfile& model, const ClusterSpec& cluster,
                  const PlanOptions& options) {
  return std::string(MakePlan(strategy, model, cluster, options).status().message());
}

TEST(SearchTest, ImpossibleRequestsNameBothValues) {
  const ModelProfile model = Model(2, 600);
  const Strategy pipeline = Make("1f1b", "first");
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), Batch(0)),
            "the global batch must be at least 1 sample; got 0");
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), Batch((1 << 24) + 2)),
            "the global batch must be at most 16777216 samples; got 16777218");
  PlanOptions options = Batch(8);
  options.num_stages = 4;
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), options),
            "4 stages need at least as many devices; there are 2");
  options = Batch(8);
  options.num_micro_batches = 16;
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), options),
            "16 micro-batches are more than a pipeline's 8 samples");
  options.num_micro_batches = -1;
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), options),
            "num_micro_batches must be at least 1, or 0 for a search; got -1");
  EXPECT_EQ(Error(Make("single", "first"), model, IdealCluster(2), Batch(7)),
            "a global batch of 7 samples does not divide over 2 pipelines");
  options = Batch(8);
  options.simulation_budget = 0;
  EXPECT_EQ(Error(pipeline, model, IdealCluster(2), options),
            "simulation_budget must be at least 1; got 0; the default is 1000000");
  options = Batch(16);
  options.num_stages = 16;
  EXPECT_EQ(Error(pipeline, model, IdealCluster(16), options),
            "16 stages cannot be cut from a backbone of 8 layers");
}

TEST(SearchTest, LackOfMemoryNamesBothValues) {
  UniformProfileOptions uniform;
  uniform.parameter_bytes = 1000;
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_memory_bytes_per_device(7999);
  // Two layers per stage of 4 * 1000 bytes each: weights, gradients and two moments.
  const absl::StatusOr<PlanResult> result =
      MakePlan(Make("1f1b", "first"), UniformProfile(uniform), cluster, Batch(2));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      result.status().message(),
      "no partition into 2 stages fits in memory: the most even one needs 7.8 KiB on a device "
      "and the limit is 7.8 KiB");
  cluster.set_memory_bytes_per_device(8000);
  EXPECT_TRUE(
      MakePlan(Make("1f1b", "first"), UniformProfile(uniform), cluster, Batch(2)).status().ok());
}

TEST(SearchTest, ReportsWhetherAllCandidatesWereTriedIfNothingFits) {
  UniformProfileOptions uniform;
  uniform.num_layers = 32;
  uniform.parameter_bytes = 1000;
  uniform.saved_bytes = 1000000;
  ModelProfile model = UniformProfile(uniform);
  ClusterSpec cluster = IdealCluster(8);
  PlanOptions options = Batch(16);
  options.simulation_budget = 100;
  const auto ended_early = [&] {
    const absl::Status status =
        MakePlan(Make("bitpipe", "first"), model, cluster, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    return absl::StrContains(std::string(status.message()), "; the budget ended after ");
  };
  // What stages keep is known without a cut: no cut fits.
  cluster.set_memory_bytes_per_device(300000);
  EXPECT_FALSE(ended_early());
  // Workspaces are known only from cuts.
  for (LayerProfile& layer : *model.mutable_components(0)->mutable_layers()) {
    layer.set_workspace_bytes_per_sample(100000000);
  }
  cluster.set_memory_bytes_per_device(99000000);
  EXPECT_TRUE(ended_early());
  options.simulation_budget = 1000000000;
  EXPECT_FALSE(ended_early());
}

TEST(SearchTest, UnlikeDevicesGetTheBestStages) {
  // Uneven layers: the last of three takes half of all. Only the second rank is fast.
  UniformProfileOptions uniform;
  uniform.num_layers = 3;
  ModelProfile model = UniformProfile(uniform);
  for (LayerTiming& timing : *model.mutable_components(0)->mutable_layers(2)->mutable_timings()) {
    timing.set_forward_ns(2 * timing.forward_ns());
    timing.set_input_grad_ns(2 * timing.input_grad_ns());
    timing.set_weight_grad_ns(2 * timing.weight_grad_ns());
  }
  ClusterSpec cluster = IdealCluster(3);
  DeviceClass* quick = cluster.add_device_classes();
  quick->set_name("quick");
  quick->set_first_rank(1);
  quick->set_num_devices(1);
  quick->set_speed(2);
  PlanOptions options = Batch(12);
  options.num_stages = 3;
  options.num_micro_batches = 12;
  Strategy strategy = Make("1f1b", "first");
  const Nanos in_order = MakePlan(strategy, model, cluster, options)->plan.prediction().step_ns();
  strategy.set_partitioner("heterogeneous");
  const absl::StatusOr<PlanResult> seated = MakePlan(strategy, model, cluster, options);
  ASSERT_TRUE(seated.ok()) << seated.status();
  EXPECT_LT(seated->plan.prediction().step_ns(), in_order);
  EXPECT_EQ(seated->plan.stages(2).ranks(0), 1);
  const absl::Status verified = VerifyPlan(seated->plan, model, cluster);
  EXPECT_TRUE(verified.ok()) << verified;
}

TEST(SearchTest, MoreSchedulesMakeNoPlanWorse) {
  int better = 0;
  for (int seed = 0; seed < 25; ++seed) {
    RandomStream random(17, seed, 0, RandomPurpose::kTest);
    const ModelProfile model = RandomProfile(random);
    const ClusterSpec cluster = RandomCluster(random, 4);
    PlanOptions options = Batch(8 << random.NextBelow(3));
    const auto step = [&](const std::string& schedules) {
      Strategy strategy = Make("1f1b", "fill");
      strategy.set_schedule(schedules);
      if (schedules != "1f1b") strategy.set_recompute("auto");
      const absl::StatusOr<PlanResult> result = MakePlan(strategy, model, cluster, options);
      EXPECT_TRUE(result.ok()) << result.status();
      return result.ok() ? result->expected_step_ns : 0;
    };
    const Nanos one = step("1f1b"), several = step("1f1b|eager-1f1b|wave|zb-h1|zb-auto|zb-v");
    EXPECT_LE(several, one) << seed;
    better += several < one;
  }
  EXPECT_GT(better, 0);
}

// By hand: 1F1B takes (2 + 1) * 12000. ZB-H1's bubble is a forward pass and an input gradient minus
// a weight gradient, 4000.
TEST(SearchTest, AlternativeReplacesTheFirstScheduleIfItsStepIsShorter) {
  PlanOptions options = Batch(2);
  options.num_micro_batches = 2;
  options.global_norm = false;  // its all-reduce would take a nanosecond
  options.refine = false;
  const auto result = MakePlan(Make("1f1b|zb-h1", "first"), Model(0, 0), IdealCluster(2), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->candidates[0].schedule, "zb-h1");
  EXPECT_EQ(result->plan.prediction().step_ns(), 2 * 12000 + 4000);
}

// The best plan is improved once more after all others have used their share of the budget.
TEST(SearchTest, BestPlanIsImprovedOnceMoreIfTheShapeIsGiven) {
  RandomStream random(29, 15, 0, RandomPurpose::kTest);
  RandomProfileOptions layers;
  layers.min_layers = 16;
  layers.max_layers = 24;
  const ModelProfile model = RandomProfile(random, layers);
  Strategy strategy = Make("1f1b|zb-h1|zb-auto|wave", "fill");
  strategy.set_tune(true);
  strategy.set_recompute("auto");
  PlanOptions options = Batch(16);
  options.num_stages = options.devices_per_pipeline = 4;
  options.num_micro_batches = 8;
  options.simulation_budget = 90000;
  const auto result = MakePlan(strategy, model, IdealCluster(4), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->expected_step_ns, 77800);  // without, 77813
}

}  // namespace
}  // namespace dpipe
