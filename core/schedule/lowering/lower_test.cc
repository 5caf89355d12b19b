#include "core/schedule/lowering/lower.h"

#include <string>
#include <vector>

#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/testing/plan_lists.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

const ListStyle kSamples{false, true};

struct Setting {
  UniformProfileOptions profile;
  PipelineLayout layout;
  std::string schedule = "1f1b";
  LowerOptions options;

  absl::StatusOr<Plan> Lower() const {
    DPIPE_ASSIGN_OR_RETURN(
        const CostModel cost,
        CostModel::Create(UniformProfile(profile), IdealCluster(layout.num_devices)));
    DPIPE_ASSIGN_OR_RETURN(const Schedule order,
                           MakeSchedule(schedule, {static_cast<int>(layout.stages.size()),
                                                   layout.num_micro_batches()}));
    return LowerPlan(layout, order, options, cost);
  }
};

Setting TwoStages(int num_micro_batches) {
  Setting setting;
  setting.layout = StraightLayout(2, num_micro_batches, 1, {{{0, 2}, 1}, {{2, 4}, 1}});
  return setting;
}

TEST(LowerTest, OneFOneBByHand) {
  Setting setting = TwoStages(2);
  setting.options.recv_lookahead = 0;
  auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0), "F0 >1 F1 >1 <1 B0 <1 B1 O");
  EXPECT_EQ(ListOf(*plan, 1), "<0 F0 B0 >0 <0 F1 B1 >0 O");
  // One slot earlier: the activation of F1 and the gradient of B1 are both received before B0.
  // Receiving the gradient of B0 before F1, too, would deadlock: it waits for F1's activation.
  setting.options.recv_lookahead = 1;
  plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0), "F0 >1 F1 >1 <1 <1 B0 B1 O");
  EXPECT_EQ(ListOf(*plan, 1), "<0 F0 <0 B0 >0 F1 B1 >0 O");
}

// The last block is restored before its gradient arrives, the first one after the last one's pass.
TEST(LowerTest, BlocksAreRestoredOneAtATime) {
  Setting setting = TwoStages(1);
  setting.layout.stages[0].recompute = true;
  setting.layout.stages[0].recompute_cuts = {1};
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0), "F0 >1 <1 C0 B0 C0 B0 O");
  std::vector<int> begins;
  for (const Instruction& i : plan->devices(0).instructions()) {
    if (i.kind() == Instruction::RECOMPUTE || i.kind() == Instruction::BACKWARD) {
      begins.push_back(i.layers().begin());
    }
  }
  EXPECT_EQ(begins, (std::vector<int>{1, 1, 0, 0}));
  setting.layout.stages[0].recompute_cuts = {2};
  EXPECT_EQ(setting.Lower().status().message(),
            "stage 0: recompute_cuts has 2 after 0; they must increase inside layers [0, 2)");
  setting.layout.stages[0].recompute = false;
  EXPECT_EQ(setting.Lower().status().message(),
            "stage 0: it has 1 recompute_cuts and does not recompute; it must have none");
}

// Gradients are reduced in the same buckets as without blocks, each after the last pass over it.
TEST(LowerTest, BucketsMayExtendOverBlocks) {
  Setting setting;
  setting.profile.num_layers = 4;
  setting.profile.parameter_bytes = 100;
  setting.layout = StraightLayout(2, 1, 2, {{{0, 4}, 2}});
  setting.layout.stages[0].recompute = true;
  setting.layout.stages[0].recompute_cuts = {1, 3};
  setting.schedule = "single";
  setting.options.bucket_bytes = 200;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0), "F0 C0 B0 C0 B0 R2-4 B0 C0 B0 R0-2 O");
}

TEST(LowerTest, GPipeReceivesGradientsAfterForwardPasses) {
  Setting setting = TwoStages(2);
  setting.schedule = "gpipe";
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // The first gradient waits for F1 of stage 1, which waits for F1 here, so it is not received
  // before.
  EXPECT_EQ(ListOf(*plan, 0), "F0 >1 F1 >1 <1 <1 B0 B1 O");
}

// Stage 0 finishes F0 to F2 while stage 1 runs F0, and F3 when stage 1 begins F1.
TEST(LowerTest, EarlyReceivesFollowWorkDuringTheirSend) {
  Setting setting;
  setting.layout = StraightLayout(2, 4, 1, {{{0, 1}, 1}, {{1, 4}, 1}});
  setting.schedule = "gpipe";
  setting.options.recv_lookahead = 100;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 1).substr(0, 23), "<0 <0 <0 F0 <0 F1 F2 F3");
}

TEST(LowerTest, UnequalReplicationSendsCommonSamples) {
  Setting setting;
  setting.layout = StraightLayout(5, 1, 6, {{{0, 2}, 2}, {{2, 4}, 3}});
  setting.options.sync = SyncPolicy::kEnd;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Stage 0 has [0,3) and [3,6); stage 1 has [0,2), [2,4) and [4,6). A rank whose samples cross a
  // boundary of the other stage begins with the later samples, because they come first on the other
  // side.
  EXPECT_EQ(ListOf(*plan, 0, kSamples), "F0[0,3) >2[0,2) >3[2,3) <2[0,2) <3[2,3) B0[0,3) R0-2 O");
  EXPECT_EQ(ListOf(*plan, 3, kSamples), "<1[3,4) <0[2,3) F0[2,4) B0[2,4) >1[3,4) >0[2,3) R2-4 O");
}

TEST(LowerTest, SendsGradientBeforeReducingLastBucket) {
  Setting setting = TwoStages(1);
  setting.layout.num_devices = 4;  // two pipeline groups
  setting.profile.parameter_bytes = 100;
  setting.options.bucket_bytes = 100;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 3), "<2 F0 B0 R3-4 B0 >2 R2-3 O");
}

TEST(LowerTest, FrozenWorkIsSharedAndExchanged) {
  Setting setting = TwoStages(4);
  setting.profile.frozen_layers = 1;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Only stage 0 reads the outputs: rank 1 computes samples 2 and 3 and sends them.
  EXPECT_EQ(ListOf(*plan, 0, kSamples).substr(0, 29), "L[0,2) Z[0,2) <1[2,4) F0[0,1)");
  EXPECT_EQ(ListOf(*plan, 1, kSamples).substr(0, 21), "L[2,4) Z[2,4) >0[2,4)");
}

TEST(LowerTest, FrozenWorkOnFirstStageOnly) {
  Setting setting;
  setting.profile.frozen_layers = 1;
  setting.options.frozen = FrozenPolicy::kFirstStage;
  setting.layout = StraightLayout(6, 2, 2, {{{0, 2}, 2}, {{2, 4}, 1}});
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Two pipeline groups of four samples, with two ranks on the first stage of each.
  const std::vector<std::string> samples = {"[0,2)", "[2,4)", "", "[4,6)", "[6,8)", ""};
  for (int rank = 0; rank < 6; ++rank) {
    const std::string list = ListOf(*plan, rank, kSamples);
    if (samples[rank].empty()) {
      EXPECT_EQ(list.find('Z'), std::string::npos) << list;
    } else {
      EXPECT_EQ(list.substr(0, 13), "L" + samples[rank] + " Z" + samples[rank]) << list;
    }
  }
}

TEST(LowerTest, SingleStageComputesItsFrozenSamples) {
  Setting setting;
  setting.profile.frozen_layers = 1;
  setting.schedule = "single";
  setting.layout = StraightLayout(2, 2, 2, {{{0, 4}, 2}});
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 1, kSamples),
            "L[1,2) Z[1,2) L[3,4) Z[3,4) F0[1,2) B0[1,2) F1[3,4) B1[3,4) R0-4 O");
}

TEST(LowerTest, ReadersLoadCachedOutputs) {
  Setting setting = TwoStages(1);
  setting.profile.frozen_layers = 1;
  setting.options.frozen = FrozenPolicy::kCached;
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0), "L F0 >1 <1 B0 O");
  EXPECT_EQ(ListOf(*plan, 1), "<0 F0 B0 >0 O");
}

TEST(LowerTest, FillItemsPrecedeInstructionsAndOutputsAreSentLast) {
  Setting setting = TwoStages(1);
  setting.profile.frozen_layers = 1;
  setting.options.frozen = FrozenPolicy::kFill;
  const auto unfilled = setting.Lower();
  ASSERT_TRUE(unfilled.ok()) << unfilled.status();
  EXPECT_EQ(ComputeInstructions(unfilled->devices(1)), (std::vector<int>{1, 2, 4}));
  setting.options.fill = {{1, 0, true, 0, {}, {0, 1}, 1}, {1, 2, false, 0, {0, 1}, {0, 1}, 1}};
  const auto plan = setting.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 1), "<0 L F0 B0 >0 Z >0 O");
  EXPECT_EQ(ListOf(*plan, 0), "F0 >1 <1 B0 <1 O");
  setting.options.fill[1].position = 3;
  EXPECT_EQ(setting.Lower().status().message(),
            "a fill item of rank 1 is at position 3; the rank has 3 compute instructions");
}

TEST(LowerTest, RejectsInconsistentSettings) {
  Setting setting = TwoStages(1);
  setting.layout.replicas[0] = 2;
  EXPECT_EQ(setting.Lower().status().message(),
            "stage 0: a micro-batch of 1 samples is not divisible over 2 ranks");
  setting = TwoStages(1);
  setting.layout.stages[1].layers.end = 3;
  EXPECT_EQ(setting.Lower().status().message(), "the stages hold 3 layers of the backbone's 4");
  setting = TwoStages(1);
  setting.layout.num_devices = 3;
  EXPECT_EQ(setting.Lower().status().message(), "3 devices do not divide into pipelines of 2");
  setting = TwoStages(3);
  setting.profile.frozen_layers = 1;
  setting.options.frozen_quantum = 2;
  EXPECT_EQ(setting.Lower().status().message(),
            "a pipeline group's 3 samples are not a multiple of the frozen quantum, 2");
}

}  // namespace
}  // namespace dpipe
