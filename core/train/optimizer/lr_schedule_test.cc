#include "core/train/optimizer/lr_schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(LrScheduleTest, WarmsUpLinearly) {
  LrSchedule schedule;
  schedule.peak = 1.0f;
  schedule.warmup_steps = 4;
  EXPECT_FLOAT_EQ(schedule.At(0), 0.25f);
  EXPECT_FLOAT_EQ(schedule.At(3), 1.0f);
  EXPECT_FLOAT_EQ(schedule.At(1000), 1.0f);
}

TEST(LrScheduleTest, DecaysToTheFloorAndStays) {
  LrSchedule schedule;
  schedule.peak = 2.0f;
  schedule.warmup_steps = 10;
  schedule.total_steps = 110;
  schedule.floor = 0.1f;
  schedule.shape = LrSchedule::Shape::kCosine;
  EXPECT_FLOAT_EQ(schedule.At(10), 2.0f);
  EXPECT_NEAR(schedule.At(60), 2.0f * 0.55f, 1e-6);  // halfway: the mean of 1 and the floor
  EXPECT_NEAR(schedule.At(110), 0.2f, 1e-6);
  EXPECT_NEAR(schedule.At(500), 0.2f, 1e-6);
  schedule.shape = LrSchedule::Shape::kLinear;
  EXPECT_NEAR(schedule.At(35), 2.0f * (0.1f + 0.9f * 0.75f), 1e-6);
}

TEST(LrScheduleTest, PolynomialsAndRestarts) {
  LrSchedule schedule;
  schedule.peak = 2.0f;
  schedule.total_steps = 100;
  schedule.shape = LrSchedule::Shape::kPolynomial;
  schedule.power = 3;
  EXPECT_NEAR(schedule.At(50), 2.0f / 8, 1e-6);
  EXPECT_NEAR(schedule.At(100), 0, 1e-6);
  schedule.shape = LrSchedule::Shape::kCosineRestarts;
  schedule.cycles = 4;
  for (int cycle = 0; cycle < 4; ++cycle) {
    EXPECT_NEAR(schedule.At(25 * cycle), 2.0f, 1e-6);
    EXPECT_NEAR(schedule.At(25 * cycle + 5), 1 + std::cos(M_PI / 5), 1e-6);
    EXPECT_LT(schedule.At(25 * cycle + 24), 0.02f);
  }
  EXPECT_EQ(schedule.At(100), 0);
  EXPECT_EQ(schedule.At(1000), 0);
}

TEST(LrScheduleTest, UnknownShapeListsValidNames) {
  EXPECT_TRUE(ParseLrShape("cosine").ok());
  EXPECT_NE(
      ParseLrShape("step").status().message().find("constant, linear, cosine, polynomial and"),
      std::string::npos);
}

}  // namespace
}  // namespace dpipe
