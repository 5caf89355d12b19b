#include "core/schedule/lowering/weave.h"

#include <algorithm>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/testing/plan_lists.h"
#include "core/schedule/testing/plan_mutations.h"
#include "core/schedule/testing/random_plan.h"
#include "core/schedule/testing/symbolic_run.h"
#include "core/schedule/verification/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 3;  // a first, a steady and a last step

// Two stages of one layer, one micro-batch of 4 samples, an encoder of 2 layers. Ranks 0 and 1 run
// "F0 >1 <1 B0 O" and "<0 F0 B0 >0 O".
struct TwoStages {
  TwoStages() : cost(*CostModel::Create(Profile(), IdealCluster(2))) {
    LowerOptions options;
    options.frozen = FrozenPolicy::kFill;
    unfilled = *LowerPlan(StraightLayout(2, 1, 4, {{{0, 1}, 1}, {{1, 2}, 1}}),
                          *MakeSchedule("1f1b", {2, 1}), options, cost);
    weave.start_ns = {{0, 0, 0, 3, 4}, {0, 1, 2, 0, 4}};
  }

  static ModelProfile Profile() {
    UniformProfileOptions options;
    options.num_layers = 2;
    options.frozen_layers = 2;
    options.value_bytes = 8;
    return UniformProfile(options);
  }

  CostModel cost;
  Plan unfilled;
  WeaveOptions weave;
};

TEST(WeaveTest, MovesSamplesByHand) {
  TwoStages two;
  ASSERT_EQ(ListOf(two.unfilled, 0), "F0 >1 <1 B0 O");
  ASSERT_EQ(ListOf(two.unfilled, 1), "<0 F0 B0 >0 O");
  // Rank 1 runs layer 0 of all samples before its forward pass. Rank 0 runs layer 1 of samples 0
  // and 1 before its backward pass, rank 1 that of the others at the end.
  const std::vector<FrozenPhase> phases = {
      {{1, 1, 0, {0, 1}, {0, 4}}}, {{0, 3, 0, {1, 2}, {0, 2}}}, {{1, 4, 0, {1, 2}, {2, 4}}}};
  const auto plan = WeaveFrozenWork(two.unfilled, phases, two.weave, two.cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Samples 0 and 1 go to rank 0 right after their first layer. Only stage 0 reads outputs, so rank
  // 1 sends its two at the end.
  EXPECT_EQ(ListOf(*plan, 0, {false, true}),
            "F0[0,4) >1[0,4) <1[0,2) <1[0,4) Z[0,2) B0[0,4) <1[2,4) O");
  EXPECT_EQ(ListOf(*plan, 1, {false, true}),
            "<0[0,4) L[0,4) Z[0,4) >0[0,2) F0[0,4) B0[0,4) >0[0,4) Z[2,4) >0[2,4) O");
  EXPECT_TRUE(VerifyPlan(*plan, two.cost).ok()) << VerifyPlan(*plan, two.cost);
  for (const Instruction& instruction : plan->devices(1).instructions()) {
    if (instruction.payload() != Instruction::FROZEN_VALUES) continue;
    EXPECT_EQ(instruction.bytes(), 16);  // one value of 8 bytes, two samples
  }
  // Rank 1 no longer holds these bytes in its forward pass, and rank 0 holds them until it runs
  // layer 1.
  std::vector<FrozenPhase> staying = phases;
  staying[1][0] = {1, 4, 0, {1, 2}, {0, 2}};
  const auto stays = WeaveFrozenWork(two.unfilled, staying, two.weave, two.cost);
  ASSERT_TRUE(stays.ok()) << stays.status();
  ASSERT_EQ(ListOf(*stays, 1), "<0 L Z F0 B0 >0 Z Z >0 O");
  EXPECT_EQ(MemoryOfRank(*stays, 1, two.cost).instruction_bytes[3],
            MemoryOfRank(*plan, 1, two.cost).instruction_bytes[4] + 16);
  EXPECT_EQ(MemoryOfRank(*plan, 0, two.cost).instruction_bytes[3],
            MemoryOfRank(*stays, 0, two.cost).instruction_bytes[2] + 16);
}

TEST(WeaveTest, WrongPhasesAreInvalidArgument) {
  const TwoStages two;
  const auto error = [&two](const std::vector<FrozenPhase>& phases) {
    const auto plan = WeaveFrozenWork(two.unfilled, phases, two.weave, two.cost);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(error({{{0, 4, 0, {1, 2}, {0, 4}}}}), HasSubstr("do not begin with the next one, 0"));
  EXPECT_THAT(error({{{0, 4, 0, {0, 1}, {0, 4}}}, {{1, 4, 0, {0, 1}, {0, 4}}}}),
              HasSubstr("sample 0: layers [0, 1) do not begin with the next one, 1"));
  // Layers that nobody runs are left to VerifyPlan.
  const auto plan =
      WeaveFrozenWork(two.unfilled, {{{0, 4, 0, {0, 1}, {0, 4}}}}, two.weave, two.cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(VerifyPlan(*plan, two.cost).ok());
}

// Returns every frozen layer on every sample, in a random legal order of ranges on random ranks.
std::vector<FrozenPhase> RandomPhases(RandomStream& random, const Plan& unfilled,
                                      const CostModel& cost) {
  const int quantum = cost.frozen_quantum(), batch = unfilled.global_batch();
  std::vector<std::vector<int>> next(cost.num_components(), std::vector<int>(batch, 0));
  const auto is_ready = [&](int c, int n) {
    if (next[c][n] == cost.num_layers(c)) return false;
    for (int source : cost.SourcesOf(c, cost.AllLayers(c))) {
      if (next[source][n] < cost.num_layers(source)) return false;
    }
    return true;
  };
  std::vector<FrozenPhase> phases;
  while (true) {
    std::vector<std::pair<int, int>> ready;  // component, first sample of a quantum
    for (int c : cost.frozen_components()) {
      for (int n = 0; n < batch; n += quantum) {
        if (is_ready(c, n)) ready.emplace_back(c, n);
      }
    }
    if (ready.empty()) return phases;
    const auto [c, begin] = ready[random.NextBelow(static_cast<uint32_t>(ready.size()))];
    const int layer = next[c][begin];
    const int end_layer =
        layer + 1 + static_cast<int>(random.NextBelow(cost.num_layers(c) - layer));
    int end = begin + quantum;
    while (end < batch && is_ready(c, end) && next[c][end] == layer && random.NextBelow(4) > 0) {
      end += quantum;
    }
    FrozenPhase phase;
    for (int n = begin; n < end;) {  // neighbouring pieces on several ranks
      const int quanta = (end - n) / quantum;
      FrozenPiece piece;
      piece.component = c;
      piece.layers = {layer, end_layer};
      piece.samples = {n, n + quantum * static_cast<int>(1 + random.NextBelow(quanta))};
      piece.rank = static_cast<int>(random.NextBelow(unfilled.devices_size()));
      const std::vector<int> compute = ComputeInstructions(unfilled.devices(piece.rank));
      piece.before = compute[random.NextBelow(static_cast<uint32_t>(compute.size()))];
      for (; n < piece.samples.end; ++n) next[c][n] = end_layer;
      phase.push_back(piece);
    }
    phases.push_back(phase);
  }
}

// Any phases at any positions, with any starts, give plans that cannot deadlock and train the right
// model.
TEST(WeaveTest, RandomPlansAreValidAndTrainTheRightModel) {
  int num_moves = 0, num_deliveries = 0, num_plans = 0;
  for (int i = 0; i < 400; ++i) {
    RandomStream random(51, i, 0, RandomPurpose::kTest);
    RandomPlanOptions sizes;
    sizes.profile.frozen_quantum = 1 + static_cast<int>(random.NextBelow(2));
    const RandomInstance instance = MakeRandomInstance(random, sizes);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(cost.ok()) << cost.status();
    if (cost->frozen_components().empty()) continue;
    LowerOptions lower = instance.options;
    lower.frozen = FrozenPolicy::kFill;
    lower.fill.clear();
    const auto unfilled = LowerPlan(instance.layout, instance.schedule, lower, *cost);
    ASSERT_TRUE(unfilled.ok()) << unfilled.status();
    WeaveOptions options;
    options.flush_exchange = random.NextBelow(3) == 0;
    for (const DeviceProgram& program : unfilled->devices()) {
      std::vector<Nanos>& starts = options.start_ns.emplace_back();
      for (int k = 0; k < program.instructions_size(); ++k) starts.push_back(random.NextBelow(100));
    }
    const auto plan =
        WeaveFrozenWork(*unfilled, RandomPhases(random, *unfilled, *cost), options, *cost);
    ASSERT_TRUE(plan.ok()) << i << ": " << plan.status();
    const absl::Status status = VerifyPlan(*plan, *cost);
    ASSERT_TRUE(status.ok()) << i << ": " << status;
    const auto weights = RunSymbolically(*plan, *cost, kSteps);
    ASSERT_TRUE(weights.ok()) << i << ": " << weights.status();
    ASSERT_EQ(*weights, ExpectedWeights(*plan, *cost, kSteps)) << i;
    ++num_plans;
    // Damaged plans are refused, or only do the same in another order.
    for (int k = 0; k < 5; ++k) {
      Plan damaged = *plan;
      const Mutation mutation = Mutate(random, &damaged);
      if (!VerifyPlan(damaged, *cost).ok()) continue;
      ASSERT_TRUE(mutation.only_order) << i << ": " << mutation.what << " is accepted";
      const auto same = RunSymbolically(damaged, *cost, kSteps);
      ASSERT_TRUE(same.ok()) << i << ": " << mutation.what << ": " << same.status();
      ASSERT_EQ(*same, *weights) << i << ": " << mutation.what;
    }
    for (const DeviceProgram& program : plan->devices()) {
      for (const Instruction& instruction : program.instructions()) {
        num_moves += instruction.payload() == Instruction::FROZEN_VALUES;
        num_deliveries += instruction.payload() == Instruction::FROZEN_OUTPUT;
      }
    }
  }
  EXPECT_GT(num_plans, 200);
  EXPECT_GT(num_moves, 1000);
  EXPECT_GT(num_deliveries, 1000);
}

}  // namespace
}  // namespace dpipe
