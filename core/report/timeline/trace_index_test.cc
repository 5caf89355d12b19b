#include "core/report/timeline/trace_index.h"

#include <limits>
#include <set>

#include "core/report/testing/synthetic_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;

Trace MakeTrace(const std::string& strategy, int num_devices, int num_steps = 5) {
  SyntheticOptions options;
  options.strategy = strategy;
  options.num_devices = num_devices;
  options.num_steps = num_steps;
  options.jitter = 0.05;
  return MakeSyntheticTrace(options);
}

TEST(TraceIndexTest, EverySendMeetsItsReceive) {
  for (const char* strategy : {"data_parallel", "gpipe", "1f1b", "diffusionpipe"}) {
    const Trace trace = MakeTrace(strategy, 4);
    const auto index = TraceIndex::Create(trace);
    ASSERT_TRUE(index.ok()) << index.status();
    int num_sends = 0;
    for (const auto& event : index->events())
      num_sends += event.instruction->kind() == Instruction::SEND;
    EXPECT_EQ(index->messages().size(), num_sends) << strategy;
    std::set<int> receives;
    for (const auto& message : index->messages()) {
      const auto& send = index->events()[message.send];
      const auto& recv = index->events()[message.recv];
      EXPECT_EQ(send.instruction->peer(), recv.event->rank());
      EXPECT_EQ(recv.instruction->peer(), send.event->rank());
      EXPECT_EQ(send.instruction->micro_batch(), recv.instruction->micro_batch());
      EXPECT_EQ(send.event->step(), recv.event->step());
      EXPECT_TRUE(receives.insert(message.recv).second) << "a receive has one sender";
    }
  }
}

TEST(TraceIndexTest, ReceiveWithoutSendIsLeftOut) {
  Trace trace = MakeTrace("1f1b", 2, 1);
  const size_t before = TraceIndex::Create(trace)->messages().size();
  for (int i = 0; i < trace.events_size(); ++i) {
    const TraceEvent& event = trace.events(i);
    if (trace.plan().devices(event.rank()).instructions(event.instruction()).kind() ==
        Instruction::SEND) {
      trace.mutable_events()->DeleteSubrange(i, 1);
      break;
    }
  }
  EXPECT_EQ(TraceIndex::Create(trace)->messages().size(), before - 1);
}

TEST(TraceIndexTest, BadTracesAreRefused) {
  Trace trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_events(0)->set_rank(2);
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("rank 2"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_events(0)->set_instruction(1000);
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("instruction 1000 of"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_events(0)->set_end_ns(-1);
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("before its start"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_events(0)->set_stream(static_cast<TraceEvent::Stream>(9));
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("is on stream 9"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_plan()->mutable_devices(0)->mutable_instructions(0)->set_kind(
      static_cast<Instruction::Kind>(99));
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("of kind 99"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.mutable_events(0)->set_end_ns(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("the maximum is"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.set_step_start_ns(0, std::numeric_limits<int64_t>::min());
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("a step starts at -92"));
  trace = MakeTrace("1f1b", 2, 2);
  trace.set_step_start_ns(1, -5);
  EXPECT_THAT(TraceIndex::Create(trace).status().ToString(), HasSubstr("step 1 starts at -5 ns"));
}

TEST(TraceIndexTest, SteadyStepsLeaveOutBothEnds) {
  const Trace five = MakeTrace("1f1b", 2, 5), two = MakeTrace("1f1b", 2, 2);
  EXPECT_EQ(TraceIndex::Create(five)->SteadySteps().first_step, 1);
  EXPECT_EQ(TraceIndex::Create(five)->SteadySteps().num_steps, 3);
  EXPECT_EQ(TraceIndex::Create(two)->SteadySteps().num_steps, 2);
}

TEST(TraceIndexTest, TypicalStepsAreTheMedianOnes) {
  Trace trace = MakeTrace("1f1b", 2, 2);
  trace.clear_step_start_ns();
  // Steps of 9, 5, 7, 30, 6, 9; pairs of steady ones: 12, 37, 36. The median is 36: steps 3 and 4.
  for (int start : {0, 9, 14, 21, 51, 57, 66}) trace.add_step_start_ns(start);
  const auto index = TraceIndex::Create(trace);
  EXPECT_EQ(index->TypicalSteps(2).first_step, 3);
  EXPECT_EQ(index->TypicalSteps(2).num_steps, 2);
  EXPECT_EQ(index->TypicalSteps(9).num_steps, 4) << "all there are";
  // If the run's other steps take 6, this trace was taken in a slow minute.
  EXPECT_EQ(index->TypicalSteps(2, 6).first_step, 1);
}

TEST(EventNameTest, ShortAndLong) {
  Plan plan;
  plan.add_components()->set_name("unet");
  plan.add_components()->set_name("vae_encoder");
  Instruction instruction;
  instruction.set_kind(Instruction::FORWARD);
  instruction.set_stage(1);
  instruction.set_micro_batch(3);
  instruction.mutable_samples()->set_begin(24);
  instruction.mutable_samples()->set_end(32);
  instruction.mutable_layers()->set_begin(12);
  instruction.mutable_layers()->set_end(41);
  EXPECT_EQ(EventName(plan, instruction), "F3");
  EXPECT_EQ(DescribeInstruction(plan, instruction),
            "forward of micro-batch 3, stage 1, layers 12-40, samples 24-31");
  instruction.set_kind(Instruction::FROZEN_FORWARD);
  instruction.set_component(1);
  instruction.set_step_offset(1);
  instruction.mutable_layers()->set_begin(4);
  instruction.mutable_layers()->set_end(8);
  EXPECT_EQ(EventName(plan, instruction), "VAE L4-7");
  EXPECT_EQ(DescribeInstruction(plan, instruction),
            "vae_encoder (frozen), layers 4-7, samples 24-31, for the next step");
  instruction.mutable_layers()->set_end(5);
  EXPECT_EQ(EventName(plan, instruction), "VAE L4");
  instruction.set_component(7);
  EXPECT_EQ(EventName(plan, instruction), "componen L4") << "a plan that names no such component";
  instruction.set_kind(Instruction::SEND);
  instruction.set_payload(Instruction::GRADIENT);
  instruction.set_peer(0);
  EXPECT_EQ(EventName(plan, instruction), "grad 3 → 0");
}

}  // namespace
}  // namespace dpipe::report
