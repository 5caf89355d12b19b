#include "core/schedule/trace_stats.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Two ranks, each FORWARD, SEND or RECV, OPTIMIZER_STEP.
Plan TwoRanks(int step_offset = 0) {
  Plan plan;
  for (int r : {0, 1}) {
    DeviceProgram* program = plan.add_devices();
    program->set_rank(r);
    program->add_instructions()->set_kind(Instruction::FORWARD);
    program->add_instructions()->set_kind(r == 0 ? Instruction::SEND : Instruction::RECV);
    program->add_instructions()->set_kind(Instruction::OPTIMIZER_STEP);
  }
  plan.mutable_devices(0)->mutable_instructions(0)->set_step_offset(step_offset);
  return plan;
}

// In each step of 100 ns rank 0 computes for 60 + 10 and rank 1 for 20 + 10 ns.
std::vector<StreamEvent> Events(int num_steps) {
  std::vector<StreamEvent> events;
  for (int k = 0; k < num_steps; ++k) {
    const Nanos t = 100 * k;
    events.push_back({0, TraceEvent::COMPUTE, k, 0, t, t + 60});
    events.push_back({0, TraceEvent::SEND_STREAM, k, 1, t + 60, t + 70});
    events.push_back({1, TraceEvent::RECV_STREAM, k, 1, t + 60, t + 70});
    events.push_back({1, TraceEvent::COMPUTE, k, 0, t + 70, t + 90});
    events.push_back({0, TraceEvent::COMPUTE, k, 2, t + 90, t + 100});
    events.push_back({1, TraceEvent::COMPUTE, k, 2, t + 90, t + 100});
  }
  return events;
}

TEST(TraceStatsTest, BusyAndBubbleByHand) {
  const auto stats = ComputeTraceStats(TwoRanks(), Events(4), 1, false);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->num_steady_steps, 3);
  EXPECT_EQ(stats->step_ns, 100);
  EXPECT_EQ(stats->step_times_ns, (std::vector<Nanos>{100, 100, 100}));
  EXPECT_EQ(stats->busy_ns, (std::vector<Nanos>{70, 30}));
  EXPECT_DOUBLE_EQ(stats->bubble_ratio, 1 - 100.0 / 200);
}

TEST(TraceStatsTest, FirstStepAndIncompleteLastStepDoNotCount) {
  std::vector<StreamEvent> events = Events(4);
  for (StreamEvent& event : events) {
    if (event.step == 3 && event.instruction == 2) event.end_ns = 10000;
  }
  Trace trace;
  *trace.mutable_plan() = TwoRanks(/*step_offset=*/1);
  for (const StreamEvent& event : events) {
    TraceEvent* added = trace.add_events();
    added->set_rank(event.rank);
    added->set_step(event.step);
    added->set_instruction(event.instruction);
    added->set_start_ns(event.start_ns);
    added->set_end_ns(event.end_ns);
  }
  const auto stats = ComputeTraceStats(trace);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->num_steady_steps, 2);
  EXPECT_EQ(stats->step_ns, 100);
  EXPECT_EQ(ComputeTraceStats(TwoRanks(), Events(2), 1, true).status().message(),
            "a trace of 2 steps has no steady step: the first 1 and the last do not count");
}

TEST(TraceStatsTest, RejectsEventsThatAreNotInThePlan) {
  std::vector<StreamEvent> events = Events(3);
  events[0].instruction = 7;
  EXPECT_EQ(ComputeTraceStats(TwoRanks(), events, 1, false).status().message(),
            "a trace event of rank 0 names instruction 7; the rank's number of instructions is 3");
}

}  // namespace
}  // namespace dpipe
