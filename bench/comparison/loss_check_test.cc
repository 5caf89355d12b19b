#include "bench/comparison/loss_check.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StepTolerance kTolerance = {1e-4, 0.1, 1e-3};

report::StrategyResult Result(const std::string& name, std::vector<double> losses,
                              std::vector<double> gradient_norms = {}) {
  report::StrategyResult result;
  result.strategy = name;
  result.images_per_second = {1};
  result.losses = std::move(losses);
  result.gradient_norms = std::move(gradient_norms);
  return result;
}

TEST(LossCheckTest, LossesWithinTheToleranceCount) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.5}),
                                                 Result("1f1b", {1, 0.50001})};
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  EXPECT_TRUE(results[0].counts());
  EXPECT_TRUE(results[1].counts());
  EXPECT_EQ(results[0].loss_check.max_relative_difference, 0);
  EXPECT_NEAR(results[1].loss_check.max_relative_difference, 2e-5, 1e-9);
  EXPECT_EQ(results[1].loss_check.num_steps, 2);
  EXPECT_EQ(results[1].loss_check.reference, "one device");
}

TEST(LossCheckTest, OtherLossesAreInvalidAndSaySo) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.51})};
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  EXPECT_FALSE(results[0].counts());
  EXPECT_THAT(results[0].invalid, HasSubstr("the loss of step 1 is 0.51, but 0.5 on one device"));
}

// Doubled gradients, whose losses AdamW keeps near the others'.
TEST(LossCheckTest, WrongGradientScaleIsInvalidDespiteEqualLosses) {
  std::vector<report::StrategyResult> results = {
      Result("data_parallel", {1, 0.5}, {4, 3}),
      Result("1f1b", {1, 0.5}, {2, 1.5}),
      Result("gpipe", {1, 0.5}, {2, 1.5001}),
  };
  CheckSteps({{1}, {2}}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid, HasSubstr("the gradients' global norm of step 0 is 4, but 2"));
  EXPECT_TRUE(results[1].counts()) << results[1].invalid;
  EXPECT_TRUE(results[2].counts()) << results[2].invalid;
  EXPECT_NEAR(results[2].loss_check.max_gradient_norm_difference, 1e-4 / 1.5, 1e-7);
}

// Rounding has moved the weights apart in those steps.
TEST(LossCheckTest, NormsOfLaterStepsMayBeFurtherApart) {
  std::vector<double> norms(kEarlySteps + 2, 2), losses(kEarlySteps + 2, 1);
  std::vector<report::StrategyResult> results = {Result("gpipe", losses, norms),
                                                 Result("1f1b", losses, norms),
                                                 Result("wrong", losses, norms)};
  results[0].gradient_norms[kEarlySteps] = 2.1;
  results[1].gradient_norms[kEarlySteps - 1] = 2.1;
  results[2].gradient_norms[kEarlySteps] = 4;
  CheckSteps({losses, norms}, kTolerance, &results);
  EXPECT_TRUE(results[0].counts()) << results[0].invalid;
  EXPECT_FALSE(results[1].counts());
  EXPECT_THAT(results[2].invalid, HasSubstr("exceeds 1.0e-01"));
}

TEST(LossCheckTest, TheEarlierOfTwoDifferencesIsNamed) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.6, 0.3}, {2, 2, 5})};
  CheckSteps({{1, 0.5, 0.3}, {2, 2, 2}}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid, HasSubstr("the loss of step 1"));
}

TEST(LossCheckTest, WithoutAReferenceAllThatDisagreeAreInvalid) {
  std::vector<report::StrategyResult> results = {
      Result("data_parallel", {1, 1.9}), Result("gpipe", {1, 0.8}), Result("1f1b", {1, 0.8})};
  EXPECT_EQ(CheckSteps({}, kTolerance, &results), 1);
  for (const report::StrategyResult& result : results) {
    EXPECT_THAT(result.invalid,
                AllOf(HasSubstr("there is no reference"),
                      HasSubstr("step 1 is 1.9 by data_parallel, but 0.8 by gpipe")))
        << result.strategy;
  }
}

TEST(LossCheckTest, StrategiesThatAgreeWithEachOtherCount) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.5}, {2, 2}),
                                                 Result("1f1b", {1, 0.50001}, {2, 2.0001})};
  EXPECT_FALSE(CheckSteps({}, kTolerance, &results).has_value());
  for (const report::StrategyResult& result : results) {
    EXPECT_TRUE(result.counts()) << result.invalid;
    EXPECT_EQ(result.loss_check.reference, "the other strategies");
    EXPECT_EQ(result.loss_check.num_steps, 2);
    EXPECT_NEAR(result.loss_check.max_relative_difference, 2e-5, 1e-9);
    EXPECT_NEAR(result.loss_check.max_gradient_norm_difference, 5e-5, 1e-8);
  }
}

// Strategies that passed the reference's steps do not decide who is right in later ones.
TEST(LossCheckTest, StepsBeyondTheReferenceNameTheFirstThatItLeavesOpen) {
  std::vector<report::StrategyResult> results = {
      Result("wrong", {2, 0.5, 0.7}), Result("drifting", {1, 0.5, 0.26}),
      Result("gpipe", {1, 0.5, 0.25}), Result("1f1b", {1, 0.5, 0.25})};
  EXPECT_EQ(CheckSteps({{1, 0.5}, {}}, kTolerance, &results), 2);
  EXPECT_THAT(results[0].invalid, HasSubstr("on one device"));
  for (int i : {1, 2, 3}) EXPECT_THAT(results[i].invalid, HasSubstr("by drifting, but 0.25"));
  // With a reference that is one step longer.
  EXPECT_FALSE(CheckSteps({{1, 0.5, 0.25}, {}}, kTolerance, &results).has_value());
  EXPECT_FALSE(results[0].counts());
  EXPECT_FALSE(results[1].counts());
  EXPECT_TRUE(results[2].counts()) << results[2].invalid;
  EXPECT_TRUE(results[3].counts()) << results[3].invalid;
}

TEST(LossCheckTest, LaterStepsThatAgreeAreCountedAsCompared) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, 0.5, 0.25}),
                                                 Result("1f1b", {1, 0.5, 0.25})};
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  for (const report::StrategyResult& result : results) {
    EXPECT_EQ(result.loss_check.num_steps, 3) << result.strategy;
    EXPECT_EQ(result.loss_check.reference, "one device, then the other strategies");
  }
}

TEST(LossCheckTest, OtherMathematicsIsNotCompared) {
  std::vector<report::StrategyResult> results = {Result("xpipe", {1, 0.7}), Result("gpipe", {1, 2}),
                                                 Result("1f1b", {1, 2})};
  results[0].changes_mathematics = true;
  EXPECT_FALSE(CheckSteps({{1, 2}, {}}, kTolerance, &results).has_value());
  for (const report::StrategyResult& result : results) EXPECT_TRUE(result.counts());
  EXPECT_EQ(results[0].loss_check.reference, "");
  results[0].losses[1] = NAN;
  CheckSteps({{1, 2}, {}}, kTolerance, &results);
  EXPECT_FALSE(results[0].counts());
}

TEST(LossCheckTest, NumbersThatAreNotFiniteOrNotThereAreInvalid) {
  std::vector<report::StrategyResult> results = {Result("gpipe", {1, NAN}), Result("1f1b", {}),
                                                 Result("zb-h1", {1, 1}, {INFINITY, 1})};
  CheckSteps({}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid, HasSubstr("loss of step 1 is nan"));
  EXPECT_THAT(results[1].invalid, HasSubstr("no losses"));
  EXPECT_THAT(results[2].invalid, HasSubstr("norm of step 0 is inf"));
}

TEST(LossCheckTest, SkippedResultsAreNotChecked) {
  std::vector<report::StrategyResult> results = {Result("zero3", {})};
  results[0].skipped = "needs 2 devices";
  CheckSteps({{1}, {}}, kTolerance, &results);
  EXPECT_EQ(results[0].invalid, "");
}

}  // namespace
}  // namespace dpipe::bench
