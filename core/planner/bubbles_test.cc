#include "core/planner/bubbles.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

Instruction Of(Instruction::Kind kind) {
  Instruction instruction;
  instruction.set_kind(kind);
  return instruction;
}

void AddDevice(Plan& plan, const std::vector<Instruction::Kind>& kinds) {
  DeviceProgram* program = plan.add_devices();
  program->set_rank(plan.devices_size() - 1);
  for (Instruction::Kind kind : kinds) *program->add_instructions() = Of(kind);
}

StreamEvent Compute(int rank, int step, int instruction, Nanos start_ns, Nanos end_ns) {
  return {rank, TraceEvent::COMPUTE, step, instruction, start_ns, end_ns};
}

// Two ranks, two micro-batches of GPipe, passes of 10, optimizer steps of 5 at 60.
TEST(BubblesTest, ByHand) {
  Plan plan;
  AddDevice(plan, {Instruction::FORWARD, Instruction::SEND, Instruction::FORWARD, Instruction::SEND,
                   Instruction::RECV, Instruction::BACKWARD, Instruction::RECV,
                   Instruction::BACKWARD, Instruction::OPTIMIZER_STEP});
  AddDevice(plan, {Instruction::RECV, Instruction::FORWARD, Instruction::RECV, Instruction::FORWARD,
                   Instruction::BACKWARD, Instruction::SEND, Instruction::BACKWARD,
                   Instruction::SEND, Instruction::OPTIMIZER_STEP});
  std::vector<StreamEvent> events;
  for (int step = 0; step < 2; ++step) {
    const Nanos t = 65 * step;
    events.push_back(Compute(0, step, 0, t, t + 10));
    events.push_back(Compute(0, step, 2, t + 10, t + 20));
    events.push_back(Compute(1, step, 1, t + 10, t + 20));
    events.push_back(Compute(1, step, 3, t + 20, t + 30));
    events.push_back(Compute(1, step, 4, t + 30, t + 40));
    events.push_back(Compute(0, step, 5, t + 40, t + 50));
    events.push_back(Compute(1, step, 6, t + 40, t + 50));
    events.push_back(Compute(0, step, 7, t + 50, t + 60));
    events.push_back(Compute(0, step, 8, t + 60, t + 65));
    events.push_back(Compute(1, step, 8, t + 60, t + 65));
  }
  const std::vector<Bubble> bubbles = ExtractBubbles(plan, events, 1);
  ASSERT_EQ(bubbles.size(), 3);
  // Rank 0 waits for the first gradient.
  EXPECT_EQ(bubbles[0].rank, 0);
  EXPECT_EQ(bubbles[0].start_ns, 85);
  EXPECT_EQ(bubbles[0].length_ns, 20);
  EXPECT_EQ(bubbles[0].reason, WARM_UP);
  EXPECT_EQ(bubbles[0].instruction, 5);
  EXPECT_EQ(bubbles[0].position, 2);
  // Rank 1 waits for the first activation, across the step boundary, and for the optimizer step.
  EXPECT_EQ(bubbles[1].rank, 1);
  EXPECT_EQ(bubbles[1].start_ns, 65);
  EXPECT_EQ(bubbles[1].length_ns, 10);
  EXPECT_EQ(bubbles[1].reason, WARM_UP);
  EXPECT_EQ(bubbles[1].position, 0);
  EXPECT_EQ(bubbles[2].start_ns, 115);
  EXPECT_EQ(bubbles[2].length_ns, 10);
  EXPECT_EQ(bubbles[2].reason, COOL_DOWN);
  EXPECT_EQ(bubbles[2].position, 4);
  EXPECT_EQ(ExtractBubbles(plan, events, 1, 11).size(), 1);
}

TEST(BubblesTest, IdleTimeAfterTheLastInstructionJoinsTheNextStep) {
  Plan plan;
  AddDevice(plan, {Instruction::FORWARD, Instruction::BACKWARD, Instruction::OPTIMIZER_STEP});
  std::vector<StreamEvent> events;
  for (int step = 0; step < 2;
       ++step) {  // ends at 30 and idles until the next step at 50, then 7 more
    const Nanos t = 50 * step;
    events.push_back(Compute(0, step, 0, t + 7, t + 10));
    events.push_back(Compute(0, step, 1, t + 10, t + 20));
    events.push_back(Compute(0, step, 2, t + 20, t + 30));
  }
  const std::vector<Bubble> bubbles = ExtractBubbles(plan, events, 1);
  ASSERT_EQ(bubbles.size(), 1);
  EXPECT_EQ(bubbles[0].start_ns, 30);
  EXPECT_EQ(bubbles[0].length_ns, 27);
}

TEST(BubblesTest, WaitingForAReductionIsGradientSync) {
  Plan plan;
  AddDevice(plan, {Instruction::FORWARD, Instruction::BACKWARD, Instruction::REDUCE_GRADS,
                   Instruction::OPTIMIZER_STEP});
  std::vector<StreamEvent> events;
  for (int step = 0; step < 2; ++step) {
    const Nanos t = 40 * step;
    events.push_back(Compute(0, step, 0, t, t + 10));
    events.push_back(Compute(0, step, 1, t + 10, t + 20));
    events.push_back({0, TraceEvent::COLLECTIVE, step, 2, t + 20, t + 32});
    events.push_back(Compute(0, step, 3, t + 32, t + 40));
  }
  const std::vector<Bubble> bubbles = ExtractBubbles(plan, events, 1);
  ASSERT_EQ(bubbles.size(), 1);
  EXPECT_EQ(bubbles[0].reason, GRADIENT_SYNC);
  EXPECT_EQ(bubbles[0].length_ns, 12);
}

// A rank with two stages of a V: forward passes of stage 0 and 3, then backwards, with waits
// between the stages' passes, for gathered parameters and for a flush.
TEST(BubblesTest, SeveralStagesOfARank) {
  Plan plan;
  AddDevice(plan, {Instruction::FORWARD, Instruction::FORWARD, Instruction::BACKWARD,
                   Instruction::FORWARD, Instruction::GATHER_PARAMS, Instruction::BACKWARD,
                   Instruction::FLUSH, Instruction::OPTIMIZER_STEP});
  AddDevice(plan, {Instruction::FORWARD, Instruction::BACKWARD, Instruction::FLUSH,
                   Instruction::OPTIMIZER_STEP});
  for (int i : {1, 2}) plan.mutable_devices(0)->mutable_instructions(i)->set_stage(3);
  std::vector<StreamEvent> events;
  for (int step = 0; step < 2; ++step) {
    const Nanos t = 100 * step;
    events.push_back(Compute(0, step, 0, t, t + 10));
    events.push_back(Compute(0, step, 1, t + 20, t + 30));  // its first stage 3 pass: warm-up
    events.push_back(Compute(0, step, 2, t + 30, t + 40));
    events.push_back(Compute(0, step, 3, t + 44, t + 50));  // steady
    events.push_back({0, TraceEvent::COLLECTIVE, step, 4, t + 45, t + 56});
    events.push_back(Compute(0, step, 5, t + 56, t + 60));   // waited for the gather
    events.push_back(Compute(0, step, 6, t + 75, t + 75));   // while rank 1 computes
    events.push_back(Compute(0, step, 7, t + 78, t + 100));  // all together
    events.push_back(Compute(1, step, 0, t, t + 50));
    events.push_back(Compute(1, step, 1, t + 50, t + 75));
    events.push_back(Compute(1, step, 2, t + 75, t + 75));
    events.push_back(Compute(1, step, 3, t + 78, t + 100));
  }
  std::vector<BubbleReason> reasons;
  for (const Bubble& bubble : ExtractBubbles(plan, events, 1)) {
    if (bubble.rank == 0) reasons.push_back(bubble.reason);
  }
  EXPECT_EQ(reasons, (std::vector<BubbleReason>{WARM_UP, STEADY, OPTIMIZER, COOL_DOWN, OPTIMIZER}));
}

}  // namespace
}  // namespace dpipe
