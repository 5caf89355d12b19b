#include "bench/suite_runner/suite_results.h"

#include <string>

#include "core/report/results/results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Results TwoCases() {
  Results results;
  for (const char* id : {"cpu.a", "cpu.b"}) {
    CaseResult& one = *results.add_cases();
    one.set_id(id);
    StrategyResult& result = *one.add_strategies();
    result.set_strategy("gpipe");
    for (const double speed : {10, 11, 12}) result.add_images_per_second(speed);
  }
  return results;
}

TEST(SuiteResultsTest, LaterTurnsComeBehindTheOthers) {
  Results results = TwoCases(), more = TwoCases();
  StrategyResult& later = *more.mutable_cases(1)->mutable_strategies(0);
  later.clear_images_per_second();
  later.add_images_per_second(7);
  later.add_step_ms(1);
  later.add_step_ms(2);
  later.set_invalid("the loss of step 3 is nan");
  ASSERT_TRUE(AppendTurns(more, &results).ok());
  EXPECT_EQ(results.rounds(), 2);
  const StrategyResult& a = results.cases(0).strategies(0);
  EXPECT_THAT(a.images_per_second(), ElementsAre(10, 11, 12, 10, 11, 12));
  EXPECT_TRUE(report::Counts(a));
  const StrategyResult& b = results.cases(1).strategies(0);
  EXPECT_THAT(b.images_per_second(), ElementsAre(10, 11, 12, 7));
  EXPECT_THAT(b.step_ms(), ElementsAre(1, 2));
  EXPECT_EQ(b.invalid(), "the loss of step 3 is nan");
}

TEST(SuiteResultsTest, ResultsThatDoNotBelongTogetherAreRefused) {
  Results results = TwoCases(), more = TwoCases();
  const auto error = [&] { return std::string(AppendTurns(more, &results).message()); };
  more.mutable_cases(0)->mutable_strategies(0)->set_skipped("too large");
  EXPECT_THAT(error(), HasSubstr("cpu.a, gpipe: skipped '', then 'too large'"));
  more.mutable_cases(0)->set_state(CaseResult::FAILED);
  more.mutable_cases(0)->set_reason("no memory");
  EXPECT_THAT(error(), HasSubstr("cpu.a was measured, then failed: no memory"));
  more.mutable_cases()->RemoveLast();
  EXPECT_THAT(error(), HasSubstr("2 cases, then 1"));
}

}  // namespace
}  // namespace dpipe::bench
