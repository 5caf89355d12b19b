#include "bench/loss_check.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;

report::StrategyResult Result(const std::string& name, std::vector<double> losses) {
  report::StrategyResult result;
  result.strategy = name;
  result.images_per_second = {1};
  result.losses = std::move(losses);
  return result;
}

TEST(LossCheckTest, LossesWithinTheToleranceCount) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.5}),
                                                 Result("1f1b", {1, 0.50001})};
  CheckLosses({1, 0.5}, 1e-4, &results);
  EXPECT_TRUE(results[0].counts());
  EXPECT_TRUE(results[1].counts());
  EXPECT_EQ(results[0].loss_check.max_relative_difference, 0);
  EXPECT_NEAR(results[1].loss_check.max_relative_difference, 2e-5, 1e-9);
  EXPECT_EQ(results[1].loss_check.num_steps, 2);
  EXPECT_EQ(results[1].loss_check.reference, "one device");
}

TEST(LossCheckTest, OtherLossesAreInvalidAndSaySo) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.51})};
  CheckLosses({1, 0.5}, 1e-4, &results);
  EXPECT_FALSE(results[0].counts());
  EXPECT_THAT(results[0].invalid, HasSubstr("the loss of step 1 is 0.51, but 0.5 on one device"));
}

TEST(LossCheckTest, StepsBeyondTheReferenceAreComparedWithTheFirstThatPassed) {
  std::vector<report::StrategyResult> results = {Result("wrong", {2, 0.5, 0.7}),
                                                 Result("gpipe", {1, 0.5, 0.25}),
                                                 Result("1f1b", {1, 0.5, 0.26})};
  CheckLosses({1, 0.5}, 1e-4, &results);
  EXPECT_FALSE(results[0].counts());
  EXPECT_TRUE(results[1].counts());
  EXPECT_THAT(results[2].invalid, HasSubstr("on one device, then gpipe"));
}

TEST(LossCheckTest, LossesThatAreNotFiniteOrNotThereAreInvalid) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, NAN}), Result("1f1b", {})};
  CheckLosses({}, 1e-4, &results);
  EXPECT_THAT(results[0].invalid, HasSubstr("step 1 is nan"));
  EXPECT_THAT(results[1].invalid, HasSubstr("no losses"));
}

TEST(LossCheckTest, WhatWasSkippedIsNotChecked) {
  std::vector<report::StrategyResult> results = {Result("zero3", {})};
  results[0].skipped = "needs 2 devices";
  CheckLosses({1}, 1e-4, &results);
  EXPECT_EQ(results[0].invalid, "");
}

}  // namespace
}  // namespace dpipe::bench
