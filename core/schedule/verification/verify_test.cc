#include "core/schedule/verification/verify.h"

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/testing/plan_mutations.h"
#include "core/schedule/testing/random_plan.h"
#include "core/schedule/testing/symbolic_run.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kSteps = 3;  // a first, a steady and a last one

// What a plan may have besides one chain with a stage on each rank.
struct Coverage {
  int chains = 0, backbones = 0, laps = 0, recomputed = 0, stages = 0;

  void Add(const Plan& plan, const CostModel& cost) {
    chains += plan.chains_size() > static_cast<int>(cost.backbones().size());
    backbones += cost.backbones().size() > 1;
    bool lap = false, again = false;
    for (const Stage& stage : plan.stages()) {
      lap |= stage.forward_only();
      again |= stage.recompute();
    }
    laps += lap;
    recomputed += again;
    stages += plan.stages_size() > plan.devices_per_pipeline();
  }
};

TEST(VerifyTest, AcceptsEveryLoweredPlanAndItTrainsTheRightModel) {
  Coverage coverage;
  constexpr int kInstances = 1500;
  for (int i = 0; i < kInstances; ++i) {
    RandomStream stream(21, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(cost.ok()) << cost.status();
    const absl::Status status = VerifyPlan(instance.plan, *cost);
    ASSERT_TRUE(status.ok()) << i << ": " << status << "\n" << instance.schedule.ToString();
    const auto weights = RunSymbolically(instance.plan, *cost, kSteps);
    ASSERT_TRUE(weights.ok()) << i << ": " << weights.status();
    ASSERT_EQ(*weights, ExpectedWeights(instance.plan, *cost, kSteps)) << i;
    coverage.Add(instance.plan, *cost);
  }
  for (int count :
       {coverage.chains, coverage.backbones, coverage.laps, coverage.recomputed, coverage.stages}) {
    EXPECT_GT(count, kInstances / 20);
  }
}

// Whatever is not refused must train the same model, bit by bit, as the undamaged plan; and only
// another order of the same instructions may.
TEST(VerifyTest, RefusesDamage) {
  int refused = 0, other_orders = 0;
  for (int i = 0; i < 400; ++i) {
    RandomStream stream(22, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(cost.ok()) << cost.status();
    const auto expected = ExpectedWeights(instance.plan, *cost, kSteps);
    for (int k = 0; k < 20; ++k) {
      Plan damaged = instance.plan;
      const Mutation mutation = Mutate(stream, &damaged);
      if (!VerifyPlan(damaged, *cost).ok()) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(mutation.only_order)
          << "instance " << i << ": " << mutation.what << " is accepted";
      const auto weights = RunSymbolically(damaged, *cost, kSteps);
      ASSERT_TRUE(weights.ok()) << "instance " << i << ": " << mutation.what << ": "
                                << weights.status();
      ASSERT_EQ(*weights, expected) << "instance " << i << ": " << mutation.what;
      ++other_orders;
    }
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(other_orders, 50);  // verification is not a comparison with one order either
}

// A plan of two uniform stages on two devices, 1F1B, two micro-batches, and an encoder that runs
// first.
class VerifyMessageTest : public testing::Test {
 protected:
  VerifyMessageTest() {
    UniformProfileOptions options;
    options.num_layers = 2;
    options.frozen_layers = 1;
    options.value_bytes = 8;
    options.saved_bytes = 100;
    profile_ = UniformProfile(options);
    cluster_ = IdealCluster(2);
    const auto cost = CostModel::Create(profile_, cluster_);
    const PipelineLayout layout = StraightLayout(2, 2, 1, {{{0, 1}, 1}, {{1, 2}, 1}});
    plan_ = *LowerPlan(layout, *MakeSchedule("1f1b", {2, 2}), {}, *cost);
  }
  std::string Error() const { return std::string(VerifyPlan(plan_, profile_, cluster_).message()); }
  Instruction* Find(int rank, Instruction::Kind kind, int micro_batch) {
    for (Instruction& instruction : *plan_.mutable_devices(rank)->mutable_instructions()) {
      if (instruction.kind() == kind && instruction.micro_batch() == micro_batch) {
        return &instruction;
      }
    }
    return nullptr;
  }

  ModelProfile profile_;
  ClusterSpec cluster_;
  Plan plan_;
};

TEST_F(VerifyMessageTest, NamesRankInstructionAndBothValues) {
  ASSERT_EQ(Error(), "");
  Find(0, Instruction::FORWARD, 1)->mutable_samples()->set_end(3);
  EXPECT_EQ(Error(),
            "rank 0, instruction 5 (FORWARD): samples [1, 3) must be non-empty and within [0, 2)");
  Find(0, Instruction::FORWARD, 1)->mutable_samples()->set_end(2);
  Find(0, Instruction::FORWARD, 1)->mutable_samples()->set_begin(0);
  EXPECT_EQ(
      Error(),
      "rank 0, instruction 5 (FORWARD): samples [0, 2) of micro-batch 1; this rank's are [1, 2)");
}

TEST_F(VerifyMessageTest, NamesAMessageWithoutCounterpart) {
  auto* list = plan_.mutable_devices(0)->mutable_instructions();
  for (int i = 0; i < list->size(); ++i) {
    if ((*list)[i].kind() == Instruction::SEND && (*list)[i].micro_batch() == 1) {
      list->DeleteSubrange(i, 1);
      break;
    }
  }
  EXPECT_NE(Error().find("has no counterpart: rank 0 sends 1 messages to rank 1, which receives 2"),
            std::string::npos)
      << Error();
}

TEST_F(VerifyMessageTest, NamesAPlanForAnotherCluster) {
  cluster_.set_memory_bytes_per_device(100);
  plan_.set_cluster_fingerprint("0123");
  EXPECT_NE(Error().find("cluster_fingerprint is 0123 and must be "), std::string::npos) << Error();
}

}  // namespace
}  // namespace dpipe
