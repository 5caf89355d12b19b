#include "core/schedule/memory/memory.h"

#include <algorithm>

#include "core/base/reduction_chunks.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Case {
  CostModel cost;
  Plan plan;
};

Case Uniform(const std::string& schedule, int num_stages, int num_micro_batches,
             UniformProfileOptions profile, int64_t limit = 0, int frozen_rank = -1) {
  profile.num_layers = num_stages;
  ClusterSpec cluster = IdealCluster(num_stages);
  cluster.set_memory_bytes_per_device(limit);
  auto cost = CostModel::Create(UniformProfile(profile), cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_stages; ++s) stages.push_back({{s, s + 1}, 1});
  const PipelineLayout layout = StraightLayout(num_stages, num_micro_batches, 1, stages);
  LowerOptions options;
  if (frozen_rank >= 0) {
    options.frozen = FrozenPolicy::kFill;
    const SampleRange all{0, num_micro_batches};
    options.fill = {{frozen_rank, 0, true, 0, {}, all, 1},
                    {frozen_rank, 0, false, 0, {0, profile.frozen_layers}, all, 1}};
  }
  auto plan =
      LowerPlan(layout, *MakeSchedule(schedule, {num_stages, num_micro_batches}), options, *cost);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(cost), *std::move(plan)};
}

TEST(MemoryTest, StashesAsManyMicroBatchesAsTheSchedule) {
  UniformProfileOptions profile;
  profile.saved_bytes = 1000;
  profile.parameter_bytes = 10;
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 7; ++m) {
      const Case gpipe = Uniform("gpipe", p, m, profile);
      const Case one_f_one_b = Uniform("1f1b", p, m, profile);
      for (int s = 0; s < p; ++s) {
        // Master parameters, gradients and two moments: 40 bytes.
        EXPECT_EQ(MemoryOfRank(gpipe.plan, s, gpipe.cost).peak_bytes, 40 + 1000 * m);
        EXPECT_EQ(MemoryOfRank(one_f_one_b.plan, s, one_f_one_b.cost).peak_bytes,
                  40 + 1000 * std::min(m, p - s));
      }
    }
  }
}

// By hand: one stage of 4 layers that save 100 bytes and pass on 7, in blocks of 2, and three
// micro-batches of one sample, all forward before the first goes back (gpipe).
TEST(MemoryTest, RestoresOneBlockAtATime) {
  UniformProfileOptions uniform;
  uniform.num_layers = 4;
  uniform.saved_bytes = 100;
  uniform.value_bytes = 7;
  const CostModel cost = *CostModel::Create(UniformProfile(uniform), IdealCluster(1));
  PipelineLayout layout = StraightLayout(1, 3, 1, {{{0, 4}, 1}});
  layout.stages[0].recompute = true;
  layout.stages[0].recompute_cuts = {2};
  const auto plan = LowerPlan(layout, *MakeSchedule("gpipe", {1, 3}), {}, cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // F0 F1 F2, then C B C B for each micro-batch, and the optimizer. The value handed on is kept up
  // to the first C, and is part of what that saves afterwards.
  EXPECT_EQ(MemoryOfRank(*plan, 0, cost).instruction_bytes,
            (std::vector<int64_t>{7, 14, 21, 221, 214, 214, 214, 214, 207, 207, 207, 207, 200, 200,
                                  200, 0}));
}

TEST(MemoryTest, HoldsOutputsOfTwoSteps) {
  // One device, two micro-batches of one sample, and an encoder whose outputs take 8 bytes per
  // sample. At first, the outputs of both samples of this step are present while those of the next
  // step are computed: 4 x 8. At the end, those of this step are used up: 2 x 8.
  UniformProfileOptions profile;
  profile.frozen_layers = 1;
  profile.value_bytes = 8;
  const Case c = Uniform("single", 1, 2, profile, 0, /*frozen_rank=*/0);
  const RankMemory memory = MemoryOfRank(c.plan, 0, c.cost);
  // LOAD, FROZEN, F0, B0, F1, B1, OPTIMIZER_STEP.
  EXPECT_EQ(memory.instruction_bytes, (std::vector<int64_t>{16, 32, 32, 32, 24, 24, 16}));
  EXPECT_EQ(memory.peak_bytes, 32);
  EXPECT_EQ(memory.peak_instruction, 1);
}

// Two stages on two ranks each: memory that the communicator allocates to reduce a stage's
// gradients.
TEST(MemoryTest, CountsReductionBuffers) {
  UniformProfileOptions profile;
  profile.num_layers = 2;
  profile.parameter_bytes = int64_t{100} << 20;
  const CostModel cost = *CostModel::Create(UniformProfile(profile), IdealCluster(4));
  const PipelineLayout layout = StraightLayout(4, 2, 2, {{{0, 1}, 2}, {{1, 2}, 2}});
  const auto plan = LowerPlan(layout, *MakeSchedule("1f1b", {2, 2}), {}, cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const int64_t room =
      ReductionBufferFor({1, 2}, false, cost.GradientBytes(0, {0, 1}), ReductionChunkBytes(1))
          .size_bytes();
  EXPECT_GT(room, int64_t{32} << 20);
  const int64_t without = cost.StateBytes(0, {0, 1});
  // CPUs, and devices that share one GPU, reduce within the tensors.
  ClusterSpec cpus = IdealCluster(4), parts = IdealCluster(4);
  cpus.set_collectives_use_compute(true);
  parts.set_devices_share_memory(true);
  const CostModel cost_on_cpus = *CostModel::Create(UniformProfile(profile), cpus);
  const CostModel cost_on_parts = *CostModel::Create(UniformProfile(profile), parts);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(MemoryOfRank(*plan, rank, cost).state_bytes, without + room);
    EXPECT_EQ(MemoryOfRank(*plan, rank, cost_on_cpus).state_bytes, without);
    EXPECT_EQ(MemoryOfRank(*plan, rank, cost_on_parts).state_bytes, without);
  }
}

TEST(MemoryTest, ErrorNamesTheLimit) {
  UniformProfileOptions profile;
  profile.saved_bytes = 1000;
  const Case c = Uniform("gpipe", 2, 3, profile, /*limit=*/2500);
  EXPECT_EQ(CheckMemory(c.plan, c.cost).message(),
            "rank 0, instruction 4 (FORWARD): peak 2.9 KiB exceeds the limit of 2.4 KiB");
  const Case enough = Uniform("gpipe", 2, 3, profile, /*limit=*/3000);
  EXPECT_TRUE(CheckMemory(enough.plan, enough.cost).ok());
}

}  // namespace
}  // namespace dpipe
