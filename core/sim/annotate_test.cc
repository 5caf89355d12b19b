#include "core/base/philox.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/testing/random_plan.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(AnnotateTest, PredictionsMatchTheSimulation) {
  for (int i = 0; i < 200; ++i) {
    RandomStream stream(41, i, 0, RandomPurpose::kTest);
    RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(AnnotatePrediction(&instance.plan, *cost, 0.25).ok());
    const Prediction& prediction = instance.plan.prediction();
    EXPECT_GE(prediction.step_ns(), prediction.lower_bound_ns());
    EXPECT_EQ(prediction.lower_bound_ns(), StepLowerBound(instance.plan, *cost).bound_ns);
    EXPECT_EQ(prediction.unfilled_bubble_ratio(), 0.25);
    EXPECT_EQ(prediction.peak_memory_bytes_size(), instance.plan.num_devices());
    int64_t busy = 0;
    for (const DeviceProgram& program : instance.plan.devices()) {
      int64_t end = 0;  // of the compute stream
      for (const Instruction& instruction : program.instructions()) {
        EXPECT_GE(instruction.predicted_start_ns(), 0);
        if (!IsBusy(instruction.kind())) continue;
        EXPECT_GE(instruction.predicted_start_ns(), end);
        end = instruction.predicted_start_ns() + instruction.predicted_duration_ns();
        busy += instruction.predicted_duration_ns();
      }
    }
    // The statistics average two steps, the plan has one. Contention rounds each step separately,
    // and collectives that hold up computation may meet another part of it.
    const bool contention =
        instance.cluster.contention_factor() > 1 || instance.cluster.collectives_use_compute();
    const double tolerance = contention ? 5e-3 : 1e-6;
    EXPECT_NEAR(prediction.bubble_ratio(),
                1 - static_cast<double>(busy) / prediction.step_ns() / instance.plan.num_devices(),
                tolerance);
  }
}

}  // namespace
}  // namespace dpipe
