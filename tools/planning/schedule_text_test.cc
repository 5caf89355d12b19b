#include "tools/planning/schedule_text.h"

#include <string>
#include <vector>

#include "core/schedule/generators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::HasSubstr;

// What lowering makes of a schedule, as far as ScheduleOfPlan looks at it: `replicas` ranks a
// device, backward passes of the last micro-batch in two parts, messages and recomputation between.
Plan PlanOf(const Schedule& schedule, int replicas) {
  Plan plan;
  plan.set_strategy(schedule.name());
  for (size_t c = 0; c < schedule.chains().size(); ++c) {
    const ScheduleChain& from = schedule.chains()[c];
    PipelineChain* chain = plan.add_chains();
    chain->set_component(from.backbone);
    chain->set_first_stage(schedule.FirstStageOf(static_cast<int>(c)));
    chain->set_num_stages(static_cast<int>(from.devices.size()));
    chain->set_num_micro_batches(from.num_micro_batches);
    for (size_t k = 0; k < from.devices.size(); ++k) {
      Stage* stage = plan.add_stages();
      stage->set_id(plan.stages_size() - 1);
      stage->set_chain(static_cast<int>(c));
      stage->set_forward_only(static_cast<int>(k) < from.num_forward_only);
      for (int r = 0; r < replicas; ++r) stage->add_ranks(from.devices[k] * replicas + r);
    }
  }
  for (int rank = 0; rank < schedule.num_devices() * replicas; ++rank) {
    DeviceProgram* program = plan.add_devices();
    program->set_rank(rank);
    for (const Slot& slot : schedule.slots(rank / replicas)) {
      constexpr Instruction::Kind kKinds[] = {Instruction::FORWARD, Instruction::BACKWARD,
                                              Instruction::INPUT_GRAD, Instruction::WEIGHT_GRAD};
      const int parts = slot.pass == Pass::kBackward ? 2 : 1;
      program->add_instructions()->set_kind(Instruction::RECV);
      program->add_instructions()->set_kind(Instruction::RECOMPUTE);
      for (int part = 0; part < parts; ++part) {
        Instruction* instruction = program->add_instructions();
        instruction->set_kind(kKinds[static_cast<int>(slot.pass)]);
        instruction->set_stage(slot.stage);
        instruction->set_micro_batch(slot.micro_batch);
      }
    }
  }
  return plan;
}

TEST(ScheduleTextTest, RecoversTheScheduleOfAPlan) {
  for (const char* name :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "chimera", "bitpipe", "wave"}) {
    for (const bool self_conditioning : {false, true}) {
      for (const int replicas : {1, 3}) {
        ScheduleRequest request;
        request.num_devices = 4;
        request.num_micro_batches = 8;
        request.self_conditioning = self_conditioning;
        const auto schedule = MakeSchedule(name, request);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        const auto found = ScheduleOfPlan(PlanOf(*schedule, replicas));
        ASSERT_TRUE(found.ok()) << name << ": " << found.status();
        EXPECT_EQ(found->ToString(), schedule->ToString());
        EXPECT_EQ(found->chains(), schedule->chains()) << name;
      }
    }
  }
}

TEST(ScheduleTextTest, PlansWithoutAScheduleAreRefused) {
  Plan plan = PlanOf(*MakeSchedule("1f1b", {2, 4}), 1);
  plan.mutable_devices(1)->mutable_instructions()->RemoveLast();
  plan.mutable_devices(1)->mutable_instructions()->RemoveLast();
  EXPECT_FALSE(ScheduleOfPlan(plan).ok());
  plan.mutable_stages(0)->clear_ranks();
  EXPECT_EQ(ScheduleOfPlan(plan).status().message(), "stage 0 has no ranks");
}

TEST(ScheduleTextTest, SummarizesASchedule) {
  // p = 2, m = 4 of 1F1B with F = I = W = 1: (m + p - 1) * 3 = 15, idle (p - 1) / (m + p - 1).
  const std::string text = ScheduleText(*MakeSchedule("1f1b", {2, 4}));
  EXPECT_THAT(text, HasSubstr("1f1b, 2 devices, 2 stages, 4 micro-batches"));
  EXPECT_THAT(text, HasSubstr("8 B, 8 F"));
  EXPECT_THAT(text, HasSubstr("makespan 15, bubble ratio 20.0 %"));
  EXPECT_THAT(text, HasSubstr("at most 2, 1 (stage"));
}

}  // namespace
}  // namespace dpipe::tools
