#include "bench/comparison/output.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

StrategyResult Result(const std::string& name, double loss, double gradient_norm) {
  StrategyResult result;
  result.set_strategy(name);
  LossCheck& check = *result.mutable_loss_check();
  check.set_num_steps(75);
  check.set_max_relative_difference(loss);
  check.set_max_gradient_norm_difference(gradient_norm);
  return result;
}

void SetStrategies(const std::vector<StrategyResult>& strategies, CaseResult* results) {
  *results->mutable_strategies() = {strategies.begin(), strategies.end()};
}

TEST(LossesTextTest, RoundingIsCalledSo) {
  CaseResult results;
  SetStrategies({Result("data_parallel", 4e-8, 6e-7), Result("1f1b", 4e-8, 5e-7)}, &results);
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("over 75 steps"),
                    HasSubstr("the 2 strategies that count differ by at most 4.0e-08, and their "
                              "gradients' global norms by 6.0e-07 (relative; order of summation)"),
                    Not(HasSubstr("INVALID"))));
  EXPECT_FALSE(AnyInvalid(results));
  SetStrategies({Result("gpipe", 0, 0), Result("1f1b", 0, 0)}, &results);
  EXPECT_THAT(LossesText(results), HasSubstr("agree bit for bit"));
}

TEST(LossesTextTest, InvalidResultsAreNotCalledRounding) {
  CaseResult results;
  SetStrategies(
      {Result("data_parallel", 0.58, 0.5), Result("gpipe", 1e-8, 1e-8), Result("1f1b", 1e-8, 1e-8)},
      &results);
  results.mutable_strategies(0)->set_invalid("the loss of step 5 is 1.9");
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("INVALID results have no speedup"),
                    HasSubstr("the 2 strategies that count differ by at most 1.0e-08")));
  EXPECT_TRUE(AnyInvalid(results));
}

TEST(LossesTextTest, OtherMathematicsIsNotCompared) {
  CaseResult results;
  SetStrategies({Result("xpipe", 0, 0), Result("gpipe", 0, 0), Result("1f1b", 0, 0)}, &results);
  results.mutable_strategies(0)->set_changes_mathematics(true);
  EXPECT_THAT(LossesText(results),
              AllOf(HasSubstr("all 2 strategies that count agree"),
                    HasSubstr("Not compared, because they change the mathematics: xpipe.")));
}

}  // namespace
}  // namespace dpipe::bench
