#include "core/sim/check_plan.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/base/philox.h"
#include "core/schedule/testing/plan_mutations.h"
#include "core/schedule/testing/random_plan.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

Instruction* AnyInstruction(RandomStream& stream, Plan* plan) {
  DeviceProgram* program =
      plan->mutable_devices(static_cast<int>(stream.NextBelow(plan->devices_size())));
  return program->mutable_instructions(
      static_cast<int>(stream.NextBelow(program->instructions_size())));
}

// Sets a field of an instruction or a stage to a number that may be out of range.
void Damage(RandomStream& stream, Plan* plan) {
  const int32_t numbers[] = {std::numeric_limits<int32_t>::min(), -2, -1, 0, 1, 7,
                             std::numeric_limits<int32_t>::max()};
  const int32_t number = numbers[stream.NextBelow(7)];
  Instruction* instruction = AnyInstruction(stream, plan);
  Stage* stage = plan->mutable_stages(static_cast<int>(stream.NextBelow(plan->stages_size())));
  switch (stream.NextBelow(12)) {
    case 0:
      return instruction->set_stage(number);
    case 1:
      return instruction->set_component(number);
    case 2:
      return instruction->set_micro_batch(number);
    case 3:
      return instruction->set_peer(number);
    case 4:
      return instruction->mutable_layers()->set_end(number);
    case 5:
      return instruction->mutable_samples()->set_begin(number);
    case 6:
      return instruction->set_kind(static_cast<Instruction::Kind>(stream.NextBelow(15)));
    case 7:
      return instruction->set_payload(static_cast<Instruction::Payload>(stream.NextBelow(4)));
    case 8:
      return stage->mutable_layers()->set_begin(number);
    case 9:
      return stage->set_component(number);
    case 10:
      return stage->add_ranks(number);
    default:
      return plan->set_num_micro_batches(number);
  }
}

// For any damage to a plan, simulation ends with times or with an error message.
TEST(CheckPlanTest, DamagedPlansEndInAnErrorOrATrace) {
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    RandomStream stream(61, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    for (int k = 0; k < 20; ++k) {
      Plan plan = instance.plan;
      if (stream.NextBelow(3) == 0) {
        Mutate(stream, &plan);
      } else {
        Damage(stream, &plan);
      }
      const auto simulation = SimulateSteadyState(plan, *cost);
      if (simulation.ok()) continue;
      ++refused;
      ASSERT_FALSE(simulation.status().message().empty());
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(CheckPlanTest, NamesWhatDoesNotExist) {
  RandomPlanOptions options;
  options.several_stages = false;
  RandomStream stream(62, 0, 0, RandomPurpose::kTest);
  const RandomInstance instance = MakeRandomInstance(stream, options);
  const auto cost = CostModel::Create(instance.profile, instance.cluster);
  Plan plan = instance.plan;
  plan.mutable_stages(0)->set_component(9);
  EXPECT_EQ(CheckPlanIndices(plan, *cost).message(),
            "stage 0: component 9 is not one of the " + std::to_string(cost->num_components()));
  plan = instance.plan;
  plan.mutable_devices()->RemoveLast();
  EXPECT_EQ(CheckPlanIndices(plan, *cost).message(),
            "the plan has " + std::to_string(cost->num_devices() - 1) +
                " devices, but the cluster has " + std::to_string(cost->num_devices()));
}

TEST(PairMessagesTest, EverySendMeetsItsRecv) {
  for (int i = 0; i < 200; ++i) {
    RandomStream stream(63, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto pairs = PairMessages(instance.plan);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    size_t sends = 0;
    for (const DeviceProgram& program : instance.plan.devices()) {
      for (const Instruction& instruction : program.instructions()) {
        sends += instruction.kind() == Instruction::SEND;
      }
    }
    EXPECT_EQ(pairs->size(), sends);
    std::map<std::pair<int, int>, std::pair<int, int>> last;  // by link
    for (const auto& [send, recv] : *pairs) {
      const Instruction& sent = instance.plan.devices(send.rank).instructions(send.instruction);
      const Instruction& received = instance.plan.devices(recv.rank).instructions(recv.instruction);
      EXPECT_EQ(sent.peer(), recv.rank);
      EXPECT_EQ(received.peer(), send.rank);
      EXPECT_EQ(sent.samples().begin(), received.samples().begin());
      auto [entry, first] = last.emplace(std::make_pair(send.rank, recv.rank),
                                         std::make_pair(send.instruction, recv.instruction));
      if (first) continue;
      EXPECT_LT(entry->second.first, send.instruction);
      EXPECT_LT(entry->second.second, recv.instruction);
      entry->second = {send.instruction, recv.instruction};
    }
  }
}

}  // namespace

}  // namespace dpipe
