#include "bench/comparison/output.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

report::StrategyResult Result(const std::string& name, double loss, double gradient_norm) {
  report::StrategyResult result;
  result.strategy = name;
  result.loss_check = {"the other strategies", 75, loss, 1e-4, gradient_norm, 1e-3};
  return result;
}

TEST(LossesTextTest, RoundingIsCalledSo) {
  report::BenchResults results;
  results.results = {Result("data_parallel", 4e-8, 6e-7), Result("1f1b", 4e-8, 5e-7)};
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("over 75 steps"),
                    HasSubstr("the 2 strategies that count differ by at most 4.0e-08, and their "
                              "gradients' global norms by 6.0e-07 (relative; order of summation)"),
                    Not(HasSubstr("INVALID"))));
  EXPECT_FALSE(AnyInvalid(results));
  results.results = {Result("gpipe", 0, 0), Result("1f1b", 0, 0)};
  EXPECT_THAT(LossesText(results), HasSubstr("agree bit for bit"));
}

TEST(LossesTextTest, InvalidResultsAreNamedAndNotCalledRounding) {
  report::BenchResults results;
  results.results = {Result("data_parallel", 0.58, 0.5), Result("gpipe", 1e-8, 1e-8),
                     Result("1f1b", 1e-8, 1e-8)};
  results.results[0].invalid = "the loss of step 5 is 1.9, but 0.8 on one device";
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("INVALID data_parallel: the loss of step 5 is 1.9, but 0.8"),
                    HasSubstr("the 2 strategies that count differ by at most 1.0e-08")));
  EXPECT_TRUE(AnyInvalid(results));
}

TEST(LossesTextTest, OtherMathematicsIsNotCompared) {
  report::BenchResults results;
  results.results = {Result("xpipe", 0, 0), Result("gpipe", 0, 0), Result("1f1b", 0, 0)};
  results.results[0].changes_mathematics = true;
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("all 2 strategies that count agree"),
                    HasSubstr("Not compared, because they change the mathematics: xpipe.")));
}

}  // namespace
}  // namespace dpipe::bench
