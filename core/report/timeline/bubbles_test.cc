#include "core/report/timeline/bubbles.h"

#include "core/report/testing/synthetic_trace.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

// One device and one step of [0, 100); events are added in order.
class OneDeviceTrace {
 public:
  OneDeviceTrace() {
    trace_.mutable_plan()->add_devices()->set_rank(0);
    trace_.add_step_start_ns(0);
    trace_.add_step_start_ns(100);
  }
  OneDeviceTrace& Add(Instruction::Kind kind, Nanos start_ns, Nanos end_ns) {
    DeviceProgram* program = trace_.mutable_plan()->mutable_devices(0);
    TraceEvent* event = trace_.add_events();
    event->set_instruction(program->instructions_size());
    event->set_start_ns(start_ns);
    event->set_end_ns(end_ns);
    program->add_instructions()->set_kind(kind);
    return *this;
  }
  std::vector<Bubble> Bubbles() const { return FindBubbles(*TraceIndex::Create(trace_), {0, 1}); }
  std::vector<DeviceTime> Times() const { return DeviceTimes(*TraceIndex::Create(trace_), {0, 1}); }

 private:
  Trace trace_;
};

void ExpectBubble(const Bubble& bubble, Nanos start_ns, Nanos end_ns, BubbleReason reason) {
  EXPECT_EQ(bubble.start_ns, start_ns);
  EXPECT_EQ(bubble.end_ns, end_ns);
  EXPECT_EQ(bubble.reason, reason) << BubbleReasonName(bubble.reason);
}

TEST(BubblesTest, EachReasonByHand) {
  const auto bubbles = OneDeviceTrace()
                           .Add(Instruction::RECV, 0, 10)  // receiving is not computing
                           .Add(Instruction::FORWARD, 10, 20)
                           .Add(Instruction::BACKWARD, 25, 40)
                           .Add(Instruction::FORWARD, 45, 50)
                           .Add(Instruction::BACKWARD, 60, 70)
                           .Add(Instruction::OPTIMIZER_STEP, 75, 95)
                           .Bubbles();
  ASSERT_EQ(bubbles.size(), 6);
  ExpectBubble(bubbles[0], 0, 10, WARM_UP);
  ExpectBubble(bubbles[1], 20, 25, WARM_UP);
  ExpectBubble(bubbles[2], 40, 45, STEADY);
  ExpectBubble(bubbles[3], 50, 60, COOL_DOWN);
  ExpectBubble(bubbles[4], 70, 75, OPTIMIZER);
  ExpectBubble(bubbles[5], 95, 100, OPTIMIZER);
}

TEST(BubblesTest, ReductionSplitsAnInterval) {
  const auto bubbles = OneDeviceTrace()
                           .Add(Instruction::FORWARD, 0, 20)
                           .Add(Instruction::BACKWARD, 20, 40)
                           .Add(Instruction::REDUCE_GRADS, 30, 60)
                           .Add(Instruction::OPTIMIZER_STEP, 70, 100)
                           .Bubbles();
  ASSERT_EQ(bubbles.size(), 2);
  ExpectBubble(bubbles[0], 40, 60, GRADIENT_SYNC);
  ExpectBubble(bubbles[1], 60, 70, OPTIMIZER);
}

TEST(BubblesTest, OverlappingAndCrossingEvents) {
  const auto bubbles = OneDeviceTrace()
                           .Add(Instruction::FROZEN_FORWARD, -10, 30)
                           .Add(Instruction::LOAD_BATCH, 5, 10)
                           .Add(Instruction::FROZEN_FORWARD, 90, 130)
                           .Bubbles();
  ASSERT_EQ(bubbles.size(), 1);
  ExpectBubble(bubbles[0], 30, 90, WARM_UP);
}

TEST(DeviceTimesTest, ByHand) {
  const auto times = OneDeviceTrace()
                         .Add(Instruction::LOAD_BATCH, 0, 2)
                         .Add(Instruction::FROZEN_FORWARD, 2, 10)
                         .Add(Instruction::FORWARD, 10, 20)
                         .Add(Instruction::INPUT_GRAD, 20, 30)
                         .Add(Instruction::WEIGHT_GRAD, 30, 45)
                         .Add(Instruction::OPTIMIZER_STEP, 80, 100)
                         .Times();
  ASSERT_EQ(times.size(), 1);
  EXPECT_EQ(times[0].load_ns, 2);
  EXPECT_EQ(times[0].frozen_ns, 8);
  EXPECT_EQ(times[0].forward_ns, 10);
  EXPECT_EQ(times[0].backward_ns, 25);
  EXPECT_EQ(times[0].optimizer_ns, 20);
  EXPECT_EQ(times[0].idle_ns[OPTIMIZER], 35);
  EXPECT_DOUBLE_EQ(BubbleRatio(times), 0.35);
}

TEST(DeviceTimesTest, BusyAndIdleAddUpToTheStep) {
  for (const char* strategy : {"data_parallel", "gpipe", "1f1b", "diffusionpipe"}) {
    for (int seed = 1; seed <= 20; ++seed) {
      const Trace trace = MakeSyntheticTrace({strategy, 2 * (1 + seed % 2), 8, 6, 0.2, seed});
      const auto index = TraceIndex::Create(trace);
      ASSERT_TRUE(index.ok()) << index.status();
      for (const DeviceTime& device : DeviceTimes(*index, index->SteadySteps())) {
        EXPECT_NEAR(device.BusyNs() + device.IdleNs(), device.step_ns, 1e-6 * device.step_ns)
            << strategy;
      }
    }
  }
}

TEST(DeviceTimesTest, FillingLeavesLessIdle) {
  const auto ratio = [](const char* strategy) {
    const Trace trace = MakeSyntheticTrace({strategy, 2, 4, 4, 0, 1});
    const auto index = TraceIndex::Create(trace);
    return BubbleRatio(DeviceTimes(*index, index->SteadySteps()));
  };
  EXPECT_LT(ratio("diffusionpipe"), 0.5 * ratio("1f1b"));
}

}  // namespace
}  // namespace dpipe::report
