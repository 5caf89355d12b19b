#include "bench/comparison/loss_check.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/report/results/results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StepTolerance kTolerance = {1e-4, 0.1, 1e-3};

using StrategyResults = google::protobuf::RepeatedPtrField<StrategyResult>;

StrategyResults MakeResults(const std::vector<StrategyResult>& results) {
  return {results.begin(), results.end()};
}

StrategyResult Result(const std::string& name, std::vector<double> losses,
                      std::vector<double> gradient_norms = {}) {
  StrategyResult result;
  result.set_strategy(name);
  result.add_images_per_second(1);
  *result.mutable_losses() = {losses.begin(), losses.end()};
  *result.mutable_gradient_norms() = {gradient_norms.begin(), gradient_norms.end()};
  return result;
}

TEST(LossCheckTest, LossesWithinTheToleranceCount) {
  StrategyResults results = MakeResults({Result("gpipe", {1, 0.5}), Result("1f1b", {1, 0.50001})});
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  EXPECT_TRUE(report::Counts(results[0]));
  EXPECT_TRUE(report::Counts(results[1]));
  EXPECT_EQ(results[0].loss_check().max_relative_difference(), 0);
  EXPECT_NEAR(results[1].loss_check().max_relative_difference(), 2e-5, 1e-9);
  EXPECT_EQ(results[1].loss_check().num_steps(), 2);
  EXPECT_EQ(results[1].loss_check().reference(), "one device");
}

TEST(LossCheckTest, OtherLossesAreInvalidAndSaySo) {
  StrategyResults results = MakeResults({Result("gpipe", {1, 0.51})});
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  EXPECT_FALSE(report::Counts(results[0]));
  EXPECT_THAT(results[0].invalid(), HasSubstr("the loss of step 1 is 0.51, but 0.5 on one device"));
}

// Doubled gradients, whose losses AdamW keeps near the others'.
TEST(LossCheckTest, WrongGradientScaleIsInvalidDespiteEqualLosses) {
  StrategyResults results = MakeResults({
      Result("data_parallel", {1, 0.5}, {4, 3}),
      Result("1f1b", {1, 0.5}, {2, 1.5}),
      Result("gpipe", {1, 0.5}, {2, 1.5001}),
  });
  CheckSteps({{1}, {2}}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid(), HasSubstr("the gradients' global norm of step 0 is 4, but 2"));
  EXPECT_TRUE(report::Counts(results[1])) << results[1].invalid();
  EXPECT_TRUE(report::Counts(results[2])) << results[2].invalid();
  EXPECT_NEAR(results[2].loss_check().max_gradient_norm_difference(), 1e-4 / 1.5, 1e-7);
}

// Rounding has moved the weights apart in those steps.
TEST(LossCheckTest, NormsOfLaterStepsMayBeFurtherApart) {
  std::vector<double> norms(kEarlySteps + 2, 2), losses(kEarlySteps + 2, 1);
  StrategyResults results =
      MakeResults({Result("gpipe", losses, norms), Result("1f1b", losses, norms),
                   Result("wrong", losses, norms)});
  results[0].set_gradient_norms(kEarlySteps, 2.1);
  results[1].set_gradient_norms(kEarlySteps - 1, 2.1);
  results[2].set_gradient_norms(kEarlySteps, 4);
  CheckSteps({losses, norms}, kTolerance, &results);
  EXPECT_TRUE(report::Counts(results[0])) << results[0].invalid();
  EXPECT_FALSE(report::Counts(results[1]));
  EXPECT_THAT(results[2].invalid(), HasSubstr("exceeds 1.0e-01"));
}

TEST(LossCheckTest, TheEarlierOfTwoDifferencesIsNamed) {
  StrategyResults results = MakeResults({Result("gpipe", {1, 0.6, 0.3}, {2, 2, 5})});
  CheckSteps({{1, 0.5, 0.3}, {2, 2, 2}}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid(), HasSubstr("the loss of step 1"));
}

TEST(LossCheckTest, WithoutAReferenceAllThatDisagreeAreInvalid) {
  StrategyResults results = MakeResults(
      {Result("data_parallel", {1, 1.9}), Result("gpipe", {1, 0.8}), Result("1f1b", {1, 0.8})});
  EXPECT_EQ(CheckSteps({}, kTolerance, &results), 1);
  for (const StrategyResult& result : results) {
    EXPECT_THAT(result.invalid(),
                AllOf(HasSubstr("there is no reference"),
                      HasSubstr("step 1 is 1.9 by data_parallel, but 0.8 by gpipe")))
        << result.strategy();
  }
}

TEST(LossCheckTest, StrategiesThatAgreeWithEachOtherCount) {
  StrategyResults results =
      MakeResults({Result("gpipe", {1, 0.5}, {2, 2}), Result("1f1b", {1, 0.50001}, {2, 2.0001})});
  EXPECT_FALSE(CheckSteps({}, kTolerance, &results).has_value());
  for (const StrategyResult& result : results) {
    EXPECT_TRUE(report::Counts(result)) << result.invalid();
    EXPECT_EQ(result.loss_check().reference(), "the other strategies");
    EXPECT_EQ(result.loss_check().num_steps(), 2);
    EXPECT_NEAR(result.loss_check().max_relative_difference(), 2e-5, 1e-9);
    EXPECT_NEAR(result.loss_check().max_gradient_norm_difference(), 5e-5, 1e-8);
  }
}

// Strategies that passed the reference's steps do not decide who is right in later ones.
TEST(LossCheckTest, StepsBeyondTheReferenceNameTheFirstThatItLeavesOpen) {
  StrategyResults results =
      MakeResults({Result("wrong", {2, 0.5, 0.7}), Result("drifting", {1, 0.5, 0.26}),
                   Result("gpipe", {1, 0.5, 0.25}), Result("1f1b", {1, 0.5, 0.25})});
  EXPECT_EQ(CheckSteps({{1, 0.5}, {}}, kTolerance, &results), 2);
  EXPECT_THAT(results[0].invalid(), HasSubstr("on one device"));
  for (int i : {1, 2, 3}) EXPECT_THAT(results[i].invalid(), HasSubstr("by drifting, but 0.25"));
  // With a reference that is one step longer.
  EXPECT_FALSE(CheckSteps({{1, 0.5, 0.25}, {}}, kTolerance, &results).has_value());
  EXPECT_FALSE(report::Counts(results[0]));
  EXPECT_FALSE(report::Counts(results[1]));
  EXPECT_TRUE(report::Counts(results[2])) << results[2].invalid();
  EXPECT_TRUE(report::Counts(results[3])) << results[3].invalid();
}

TEST(LossCheckTest, LaterStepsThatAgreeAreCountedAsCompared) {
  StrategyResults results =
      MakeResults({Result("gpipe", {1, 0.5, 0.25}), Result("1f1b", {1, 0.5, 0.25})});
  EXPECT_FALSE(CheckSteps({{1, 0.5}, {}}, kTolerance, &results).has_value());
  for (const StrategyResult& result : results) {
    EXPECT_EQ(result.loss_check().num_steps(), 3) << result.strategy();
    EXPECT_EQ(result.loss_check().reference(), "one device, then the other strategies");
  }
}

TEST(LossCheckTest, OtherMathematicsIsNotCompared) {
  StrategyResults results =
      MakeResults({Result("xpipe", {1, 0.7}), Result("gpipe", {1, 2}), Result("1f1b", {1, 2})});
  results[0].set_changes_mathematics(true);
  EXPECT_FALSE(CheckSteps({{1, 2}, {}}, kTolerance, &results).has_value());
  for (const StrategyResult& result : results) EXPECT_TRUE(report::Counts(result));
  EXPECT_EQ(results[0].loss_check().reference(), "");
  results[0].set_losses(1, NAN);
  CheckSteps({{1, 2}, {}}, kTolerance, &results);
  EXPECT_FALSE(report::Counts(results[0]));
}

TEST(LossCheckTest, NumbersThatAreNotFiniteOrNotThereAreInvalid) {
  StrategyResults results = MakeResults(
      {Result("gpipe", {1, NAN}), Result("1f1b", {}), Result("zb-h1", {1, 1}, {INFINITY, 1})});
  CheckSteps({}, kTolerance, &results);
  EXPECT_THAT(results[0].invalid(), HasSubstr("loss of step 1 is nan"));
  EXPECT_THAT(results[1].invalid(), HasSubstr("no losses"));
  EXPECT_THAT(results[2].invalid(), HasSubstr("norm of step 0 is inf"));
}

TEST(LossCheckTest, SkippedResultsAreNotChecked) {
  StrategyResults results = MakeResults({Result("zero3", {})});
  results[0].set_skipped("needs 2 devices");
  CheckSteps({{1}, {}}, kTolerance, &results);
  EXPECT_EQ(results[0].invalid(), "");
}

}  // namespace
}  // namespace dpipe::bench
