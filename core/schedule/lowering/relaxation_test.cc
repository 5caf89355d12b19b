#include "core/schedule/lowering/relaxation.h"

#include <string>

#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/testing/plan_lists.h"
#include "core/schedule/verification/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

struct Case {
  CostModel cost;
  Plan plan;
};

Relaxation Relaxed(Relaxation::Weights weights, int per_update = 1, int per_sync = 0) {
  Relaxation relaxation;
  relaxation.set_weights(weights);
  relaxation.set_micro_batches_per_update(per_update);
  relaxation.set_updates_per_sync(per_sync);
  return relaxation;
}

// Makes a plan of `num_stages` one-layer stages in `num_workers` pipelines, under 1F1B.
absl::StatusOr<Case> Make(int num_stages, int num_micro_batches, const Relaxation& relaxation,
                          int num_workers = 1) {
  UniformProfileOptions profile;
  profile.num_layers = num_stages;
  profile.parameter_bytes = 100;
  const int num_devices = num_stages * num_workers;
  auto cost = CostModel::Create(UniformProfile(profile), IdealCluster(num_devices));
  DPIPE_RETURN_IF_ERROR(cost.status());
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_stages; ++s) stages.push_back({{s, s + 1}, 1});
  const PipelineLayout layout = StraightLayout(num_devices, num_micro_batches, 1, stages);
  DPIPE_ASSIGN_OR_RETURN(const Schedule order,
                         MakeSchedule("1f1b", {num_stages, num_micro_batches}));
  LowerOptions options;
  options.sync = SyncPolicy::kEnd;
  options.global_norm = false;
  options.relaxation = relaxation;
  DPIPE_ASSIGN_OR_RETURN(Plan plan, LowerPlan(layout, order, options, *cost));
  return Case{*std::move(cost), std::move(plan)};
}

TEST(RelaxationTest, UpdatesFollowTheMessagesAfterTheirLastPass) {
  const auto stashed = Make(2, 4, Relaxed(Relaxation::STASHED));
  ASSERT_TRUE(stashed.ok()) << stashed.status();
  EXPECT_EQ(ListOf(stashed->plan, 0),
            "F0 >1 F1 >1 <1 B0 O0 F2 >1 <1 B1 O1 F3 >1 <1 <1 B2 O2 B3 O3");
  EXPECT_TRUE(VerifyPlan(stashed->plan, stashed->cost).ok())
      << VerifyPlan(stashed->plan, stashed->cost);
  const auto predicted = Make(2, 4, Relaxed(Relaxation::PREDICTED, 2));
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_EQ(ListOf(predicted->plan, 0), "F0 >1 F1 >1 <1 B0 F2 >1 <1 B1 O1 F3 >1 <1 <1 B2 B3 O3");
  EXPECT_TRUE(VerifyPlan(predicted->plan, predicted->cost).ok());
}

TEST(RelaxationTest, VirtualWorkersShareUpdatesAndReduceNoGradients) {
  const auto c = Make(1, 4, Relaxed(Relaxation::STASHED, 1, 2), /*num_workers=*/2);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(ListOf(c->plan, 0), "F0 B0 O0 F1 B1 O1 S0-1 F2 B2 O2 F3 B3 O3 S0-1");
  EXPECT_TRUE(VerifyPlan(c->plan, c->cost).ok()) << VerifyPlan(c->plan, c->cost);
}

// 1F1B has p - s micro-batches in flight on stage s, one of which sees the current weights.
TEST(RelaxationTest, StagesStashOneVersionPerFollowingStage) {
  for (int p = 1; p <= 4; ++p) {
    const auto c = Make(p, 8, Relaxed(Relaxation::STASHED));
    ASSERT_TRUE(c.ok()) << c.status();
    const auto predicted = Make(p, 8, Relaxed(Relaxation::PREDICTED));
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    for (int s = 0; s < p; ++s) {
      EXPECT_EQ(WeightCopies(c->plan, s), p - 1 - s);
      EXPECT_EQ(WeightCopies(predicted->plan, s), 1);
    }
    EXPECT_EQ(MemoryOfRank(c->plan, 0, c->cost).state_bytes -
                  MemoryOfRank(c->plan, p - 1, c->cost).state_bytes,
              (p - 1) * 100);
  }
}

TEST(RelaxationTest, RejectsPlansThatCannotBeRelaxedWithTheReason) {
  const auto refusal = [](const absl::StatusOr<Case>& c) {
    return std::string(c.status().message());
  };
  EXPECT_THAT(refusal(Make(2, 4, Relaxed(Relaxation::STASHED, 3))),
              HasSubstr("4 micro-batches are not a multiple of the 3 per update"));
  EXPECT_THAT(refusal(Make(2, 4, Relaxed(Relaxation::STASHED, 1, 3), 2)),
              HasSubstr("4 updates are not a multiple of the 3 per SYNC_PARAMS"));
  EXPECT_THAT(refusal(Make(2, 4, Relaxed(Relaxation::STASHED), 2)),
              HasSubstr("stage 0 is on 2 ranks, but updates_per_sync is 0"));
  Plan plan = Make(2, 4, Relaxed(Relaxation::PREDICTED))->plan;
  plan.mutable_stages(1)->set_recompute(true);
  EXPECT_THAT(std::string(CheckRelaxation(plan).message()),
              HasSubstr("stage 1 recomputes, but would see other weights"));
  plan.mutable_relaxation()->set_weights(Relaxation::STASHED);
  EXPECT_TRUE(CheckRelaxation(plan).ok());
  plan.set_global_norm(true);
  EXPECT_THAT(std::string(CheckRelaxation(plan).message()), HasSubstr("global_norm is true"));
}

TEST(RelaxationTest, VerifyRejectsMissingOrEarlyUpdates) {
  const auto c = Make(2, 6, Relaxed(Relaxation::STASHED, 1, 2), 2);
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_TRUE(VerifyPlan(c->plan, c->cost).ok()) << VerifyPlan(c->plan, c->cost);
  const auto indices = [&c](Instruction::Kind kind) {
    std::vector<int> found;
    for (int i = 0; i < c->plan.devices(0).instructions_size(); ++i) {
      if (c->plan.devices(0).instructions(i).kind() == kind) found.push_back(i);
    }
    return found;
  };
  const auto error_without = [&c](int index) {
    Plan plan = c->plan;
    plan.mutable_devices(0)->mutable_instructions()->DeleteSubrange(index, 1);
    return std::string(VerifyPlan(plan, c->cost).message());
  };
  const std::vector<int> updates = indices(Instruction::OPTIMIZER_STEP);
  const std::vector<int> syncs = indices(Instruction::SYNC_PARAMS);
  EXPECT_THAT(error_without(updates[0]),
              HasSubstr("micro_batch is 1; update 0 ends with micro-batch 0"));
  EXPECT_THAT(error_without(syncs[0]), HasSubstr("the 2 updates before it are not shared"));
  EXPECT_THAT(error_without(syncs[1]), HasSubstr("the 2 updates before it are not shared"));
  EXPECT_THAT(error_without(syncs[2]), HasSubstr("rank 0: the last 2 updates are not shared"));
  Plan early = c->plan;
  early.mutable_devices(0)->mutable_instructions()->SwapElements(updates[0], updates[0] - 1);
  EXPECT_FALSE(VerifyPlan(early, c->cost).ok());
  Plan synchronous = c->plan;
  synchronous.clear_relaxation();
  EXPECT_FALSE(VerifyPlan(synchronous, c->cost).ok());
}

}  // namespace
}  // namespace dpipe
