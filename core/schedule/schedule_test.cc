#include "core/schedule/schedule.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr Pass F = Pass::kForward;
constexpr Pass B = Pass::kBackward;
constexpr Pass I = Pass::kInputGrad;
constexpr Pass W = Pass::kWeightGrad;

std::string ErrorOf(int num_micro_batches, std::vector<std::vector<Slot>> stages) {
  return std::string(
      Schedule::CreateStraight("test", num_micro_batches, std::move(stages)).status().message());
}

TEST(ScheduleTest, TwoStagesByHand) {
  // Stage 0:  F0 F1 . . B0 . B1      at F=1, B=2: F0 0-1, F1 1-2, B0 4-6, B1 7-9
  // Stage 1:  . F0 B0 F1 B1          F0 1-2, B0 2-4, F1 4-5, B1 5-7
  const auto schedule = Schedule::CreateStraight(
      "test", 2, {{{F, 0}, {F, 1}, {B, 0}, {B, 1}}, {{F, 0}, {B, 0}, {F, 1}, {B, 1}}});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->Makespan({1, 1, 1}), 9);
  EXPECT_DOUBLE_EQ(schedule->BubbleRatio({1, 1, 1}), 1 - 12.0 / 18);
  EXPECT_EQ(schedule->PeakStashed(0), 2);
  EXPECT_EQ(schedule->PeakStashed(1), 1);
  EXPECT_EQ(schedule->ToString(), "F0 F1 B0 B1\nF0 B0 F1 B1\n");
}

TEST(ScheduleTest, SplitGradientsUnblockThePreviousStage) {
  // Stage 1 runs F0 1-2, I0 2-3, W0 3-4; stage 0 starts I0 at 3 rather than at 4.
  const auto schedule =
      Schedule::CreateStraight("test", 1, {{{F, 0}, {I, 0}, {W, 0}}, {{F, 0}, {I, 0}, {W, 0}}});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->Makespan({1, 1, 1}), 5);
  EXPECT_EQ(schedule->PeakStashed(0), 1);
}

TEST(ScheduleTest, RejectsInvalidSchedules) {
  EXPECT_EQ(ErrorOf(1, {{{F, 0}, {F, 0}, {B, 0}}}), "device 0, slot 1 (F0): a second forward pass");
  EXPECT_EQ(ErrorOf(1, {{{B, 0}, {F, 0}}}), "device 0, slot 0 (B0): no forward pass before it");
  EXPECT_EQ(ErrorOf(1, {{{F, 0}, {W, 0}, {I, 0}}}),
            "device 0, slot 1 (W0): no input gradient before it");
  EXPECT_EQ(ErrorOf(1, {{{F, 0}, {I, 0}, {B, 0}}}),
            "device 0, slot 2 (B0): a second backward pass");
  EXPECT_EQ(ErrorOf(1, {{{F, 0}, {I, 0}}}), "stage 0: 0 of 1 micro-batches are computed");
  EXPECT_EQ(ErrorOf(1, {{{F, 0}, {B, 1}}}),
            "device 0, slot 1 (B1): micro-batch 1 is not one of the 1");
  EXPECT_EQ(
      ErrorOf(2, {{{F, 0}, {F, 1}, {B, 1}, {B, 0}}}),
      "device 0, slot 2 (B1): weight gradients come in micro-batch order, and 0 is next, not 1");
  EXPECT_EQ(
      ErrorOf(0, {{}}),
      "schedule test, chain 0: 1 stages and 0 micro-batches; there must be at least one of each");
}

TEST(ScheduleTest, RejectsDeadlocks) {
  // Stage 0 runs B0 before F1, but stage 1 runs both forward passes before B0.
  EXPECT_EQ(ErrorOf(2, {{{F, 0}, {B, 0}, {F, 1}, {B, 1}}, {{F, 0}, {F, 1}, {B, 0}, {B, 1}}}),
            "device 0, slot 1 (B0): waits for a pass that never comes");
}

}  // namespace
}  // namespace dpipe
