// Filling works with any schedule: several stages per rank, split backward passes, recomputation
// and several ranks per stage.
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/fill/fill_plan.h"
#include "core/planner/testing/backbone_starts.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/verification/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Instance {
  Schedule schedule;
  PipelineLayout layout;
  CostModel cost;
};

enum class Messages { kFree, kTimed };

absl::StatusOr<Instance> RandomInstance(RandomStream& random, const std::string& name,
                                        Messages messages = Messages::kFree) {
  RandomProfileOptions sizes;
  sizes.min_layers = sizes.max_layers = 10;
  const int devices = 2 + random.NextBelow(3), replicas = 1 + random.NextBelow(2);
  const int ranks = devices * replicas;
  absl::StatusOr<CostModel> cost = CostModel::Create(
      RandomProfile(random, sizes),
      messages == Messages::kFree ? IdealCluster(ranks) : RandomCluster(random, ranks));
  if (!cost.ok()) return cost.status();
  ScheduleRequest request;
  request.num_devices = devices;
  request.num_micro_batches = devices * (1 + random.NextBelow(3));
  absl::StatusOr<Schedule> schedule = MakeSchedule(name, request);
  if (!schedule.ok()) return schedule.status();
  LayoutOptions options;
  options.num_devices = ranks;
  options.replicas.assign(devices, replicas);
  options.micro_batch_sizes = {replicas * static_cast<int>(1 + random.NextBelow(3))};
  for (int s = 0; s < schedule->num_stages(); ++s) {
    options.layers.push_back(
        {10 * s / schedule->num_stages(), 10 * (s + 1) / schedule->num_stages()});
    options.recompute.push_back(random.NextBelow(3) == 0);
  }
  absl::StatusOr<PipelineLayout> layout = MakeLayout(*schedule, options);
  if (!layout.ok()) return layout.status();
  return Instance{*std::move(schedule), *std::move(layout), *std::move(cost)};
}

class FillAnyScheduleTest : public testing::TestWithParam<std::string> {};

TEST_P(FillAnyScheduleTest, PlansAreValidWithoutFlush) {
  RandomStream random(21, 0, 0, RandomPurpose::kTest);
  int filled_plans = 0;
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const absl::StatusOr<Instance> instance = RandomInstance(random, GetParam());
    ASSERT_TRUE(instance.ok()) << instance.status();
    FillOptions fill;
    fill.even_samples = random.NextBelow(4) == 0;
    fill.partial_batch = random.NextBelow(4) > 0;
    fill.margin = random.NextBelow(4) == 0 ? 0.2 : 0;
    const absl::StatusOr<FilledPlan> filled =
        FillPlan(instance->layout, instance->schedule, {}, fill, instance->cost);
    ASSERT_TRUE(filled.ok()) << filled.status();
    const absl::Status verified = VerifyPlan(filled->plan, instance->cost);
    ASSERT_TRUE(verified.ok()) << verified;
    filled_plans += filled->bubble_ratio < filled->unfilled_bubble_ratio;
    // Messages are free here, so only computing could delay a pass. FillPlan inserts flushes if any
    // pass starts later than in the unfilled plan.
    for (const DeviceProgram& program : filled->plan.devices()) {
      for (const Instruction& instruction : program.instructions()) {
        ASSERT_NE(instruction.kind(), Instruction::FLUSH);
      }
    }
  }
  EXPECT_GT(filled_plans, 10);
}

// Messages of frozen outputs share links with activations and gradients. FillPlan sees that they
// delay no pass.
TEST_P(FillAnyScheduleTest, NoPassStartsLaterThoughMessagesTakeTime) {
  RandomStream random(23, 0, 0, RandomPurpose::kTest);
  int filled_plans = 0;
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const absl::StatusOr<Instance> instance = RandomInstance(random, GetParam(), Messages::kTimed);
    ASSERT_TRUE(instance.ok()) << instance.status();
    LowerOptions alone_options;
    alone_options.frozen = FrozenPolicy::kFill;
    const absl::StatusOr<Plan> alone =
        LowerPlan(instance->layout, instance->schedule, alone_options, instance->cost);
    ASSERT_TRUE(alone.ok()) << alone.status();
    const absl::StatusOr<FilledPlan> filled =
        FillPlan(instance->layout, instance->schedule, {}, {}, instance->cost);
    ASSERT_TRUE(filled.ok()) << filled.status();
    const absl::Status verified = VerifyPlan(filled->plan, instance->cost);
    ASSERT_TRUE(verified.ok()) << verified;
    filled_plans += filled->bubble_ratio < filled->unfilled_bubble_ratio;
    const std::vector<std::vector<Nanos>> expected = BackboneStarts(*alone, instance->cost);
    const std::vector<std::vector<Nanos>> starts = BackboneStarts(filled->plan, instance->cost);
    for (size_t r = 0; r < starts.size(); ++r) {
      ASSERT_EQ(starts[r].size(), expected[r].size());
      for (size_t i = 0; i < starts[r].size(); ++i) {
        ASSERT_LE(starts[r][i], expected[r][i]) << "rank " << r << " pass " << i;
      }
    }
  }
  EXPECT_GT(filled_plans, 10);
}

// Messages are free, so the rule's own times are right: work in a bubble delays no pass.
TEST_P(FillAnyScheduleTest, PublishedRuleGivesValidPlans) {
  RandomStream random(22, 0, 0, RandomPurpose::kTest);
  int filled_plans = 0, moves = 0;
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const absl::StatusOr<Instance> instance = RandomInstance(random, GetParam());
    ASSERT_TRUE(instance.ok()) << instance.status();
    FillOptions fill;
    fill.published = true;
    fill.partial_batch = random.NextBelow(4) > 0;
    fill.min_bubble_ns = 1 + random.NextBelow(300);
    if (random.NextBelow(2) == 0) fill.local_batches = {1, 2, 4};
    const absl::StatusOr<FilledPlan> filled =
        FillPlan(instance->layout, instance->schedule, {}, fill, instance->cost);
    ASSERT_TRUE(filled.ok()) << filled.status();
    const absl::Status verified = VerifyPlan(filled->plan, instance->cost);
    ASSERT_TRUE(verified.ok()) << verified;
    filled_plans += filled->bubble_ratio < filled->unfilled_bubble_ratio;
    for (const DeviceProgram& program : filled->plan.devices()) {
      for (const Instruction& instruction : program.instructions()) {
        moves += instruction.payload() == Instruction::FROZEN_VALUES;
        ASSERT_NE(instruction.kind(), Instruction::FLUSH);
      }
    }
  }
  EXPECT_GT(filled_plans, 10);
  EXPECT_GT(moves, 10);
}

INSTANTIATE_TEST_SUITE_P(Schedules, FillAnyScheduleTest,
                         testing::Values("gpipe", "1f1b", "eager-1f1b", "interleaved", "zb-h1",
                                         "zb-h2", "zb-auto", "zb-v", "v-half", "v-min"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace dpipe
