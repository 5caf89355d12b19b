#include "core/report/timeline/instruction_times.h"

#include "core/report/testing/synthetic_trace.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

constexpr StepWindow kAll = {1, 3};

Trace OnePlan() { return MakeSyntheticTrace({"1f1b", 2, 4, 5, 0, 1}); }

// Lengthens every event of this kind on a device, but not the steps.
Trace Slower(Trace trace, int device, Instruction::Kind kind, Nanos by_ns) {
  for (TraceEvent& event : *trace.mutable_events()) {
    const Instruction& instruction =
        trace.plan().devices(event.rank()).instructions(event.instruction());
    if (event.rank() != device || instruction.kind() != kind) continue;
    event.set_end_ns(event.end_ns() + by_ns);
  }
  return trace;
}

std::vector<InstructionTimes> Compare(const Trace& measured, const Trace& predicted) {
  WorkTimes measured_times, predicted_times;
  EXPECT_TRUE(measured_times.Add(measured, kAll).ok());
  EXPECT_TRUE(predicted_times.Add(predicted, kAll).ok());
  return CompareTimes(measured_times, predicted_times);
}

TEST(InstructionTimesTest, EqualTracesDifferNowhere) {
  const Trace trace = OnePlan();
  const auto times = Compare(trace, trace);
  ASSERT_FALSE(times.empty());
  double sum_ms = 0;
  for (const InstructionTimes& one : times) {
    EXPECT_EQ(DifferenceMs(one), 0) << one.work();
    if (one.device() == 0) sum_ms += one.measured_ms();
  }
  const double step_ms =
      static_cast<double>(trace.step_start_ns(2) - trace.step_start_ns(1)) / kNanosPerMilli;
  EXPECT_NEAR(sum_ms, step_ms, 1e-6) << "work and waiting are the step";
}

TEST(InstructionTimesTest, TheSlowedDownWorkComesFirstAndIsNamed) {
  const Trace predicted = OnePlan();
  const auto times =
      Compare(Slower(predicted, 1, Instruction::BACKWARD, 2 * kNanosPerMilli), predicted);
  ASSERT_FALSE(times.empty());
  EXPECT_EQ(times[0].work(), "backward, stage 1");
  EXPECT_EQ(times[0].device(), 1);
  EXPECT_EQ(times[0].per_step(), 4);
  EXPECT_NEAR(DifferenceMs(times[0]), 8, 1e-6);
  EXPECT_NE(LargestDeviationText(times).find("backward, stage 1 on device 1 (4 per step)"),
            std::string::npos)
      << LargestDeviationText(times);
  EXPECT_EQ(times.back().work(), "waiting");
  EXPECT_EQ(times.back().device(), 1);
  EXPECT_EQ(times.back().per_step(), 0);
  EXPECT_NEAR(DifferenceMs(times.back()), -8, 1e-6);
}

TEST(InstructionTimesTest, MediansAreOverTheStepsOfAllTraces) {
  const Trace plain = OnePlan();
  WorkTimes measured, predicted;
  ASSERT_TRUE(predicted.Add(plain, kAll).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(measured.Add(plain, kAll).ok());
  ASSERT_TRUE(measured.Add(Slower(plain, 0, Instruction::FORWARD, kNanosPerMilli), kAll).ok());
  EXPECT_EQ(DifferenceMs(CompareTimes(measured, predicted)[0]), 0);
}

TEST(InstructionTimesTest, NoPercentageOfNothing) {
  InstructionTimes times;
  times.set_work("forward, stage 0");
  times.set_device(1);
  times.set_per_step(4);
  times.set_measured_ms(2.5);
  times.set_predicted_ms(0);
  EXPECT_EQ(LargestDeviationText({times}),
            "largest deviation: forward, stage 0 on device 1 (4 per step): 2.5 ms per step, "
            "predicted 0.0");
}

TEST(InstructionTimesTest, NoMeasurementsNoDeviation) {
  EXPECT_TRUE(CompareTimes(WorkTimes(), WorkTimes()).empty());
  EXPECT_EQ(LargestDeviationText({}), "");
}

}  // namespace
}  // namespace dpipe::report
