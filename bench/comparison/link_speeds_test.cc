#include "bench/comparison/link_speeds.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void Add(CaseResult* result, const std::string& strategy, const std::vector<double>& turns,
         double predicted_ms) {
  StrategyResult& one = *result->add_strategies();
  one.set_strategy(strategy);
  for (const double images : turns) {
    one.add_images_per_second(images);
    one.add_step_ms(32'000 / images);
  }
  one.set_step_ms_predicted(predicted_ms);
}

// At 100 Mb/s zero1 is the better rival, at 1 Gb/s data_parallel.
Results TwoSpeeds() {
  Results results;
  CaseResult* slow = results.add_cases();
  (*slow->mutable_flags())["link"] = "100mbit";
  slow->set_global_batch(32);
  Add(slow, "data_parallel", {20, 20, 20, 20, 20, 20, 20}, 1600);
  Add(slow, "zero1", {25, 25, 25, 25, 25, 25, 25}, 1280);
  Add(slow, "diffusionpipe", {75, 75, 75, 75, 75, 75, 75}, 469.33);
  CaseResult* fast = results.add_cases();
  (*fast->mutable_flags())["link"] = "1gbit";
  fast->set_global_batch(32);
  Add(fast, "data_parallel", {100, 100, 100, 100, 100, 100, 100}, 320);
  Add(fast, "zero1", {90, 90, 90, 90, 90, 90, 90}, 355);
  Add(fast, "diffusionpipe", {50, 50, 50, 50, 50, 50, 50}, 640);
  return results;
}

TEST(LinkSpeedsTest, RivalIsTheFasterOfDataParallelAndZero1) {
  const Results results = TwoSpeeds();
  EXPECT_DOUBLE_EQ(OverBestDataParallel(results.cases(0), "diffusionpipe").estimate, 3);
  EXPECT_DOUBLE_EQ(OverBestDataParallel(results.cases(0), "data_parallel").estimate, 0.8);
  EXPECT_DOUBLE_EQ(OverBestDataParallel(results.cases(1), "diffusionpipe").estimate, 0.5);
  EXPECT_NE(OverBestDataParallel(results.cases(1), "zb-v").estimate,
            OverBestDataParallel(results.cases(1), "zb-v").estimate);
}

TEST(LinkSpeedsTest, TableAndSummarySayIt) {
  const Results results = TwoSpeeds();
  const std::string text = LinkSpeedsText(results);
  EXPECT_THAT(text, HasSubstr("100 Mb/s: images/s (over best DP)"));
  EXPECT_THAT(text, HasSubstr("75.00 (3.00)"));
  EXPECT_THAT(text, HasSubstr("+10 %"));
  EXPECT_EQ(LinkSpeedsSummary(results),
            "100 Mb/s: diffusionpipe is 3.00 x zero1; the fastest is diffusionpipe.\n"
            "1 Gb/s: diffusionpipe is 0.50 x data_parallel; the fastest is data_parallel.\n");
}

TEST(LinkSpeedsTest, ResultsThatDoNotCountAreLeftOut) {
  Results results = TwoSpeeds();
  results.mutable_cases(0)->mutable_strategies(1)->set_invalid("losses differ");
  EXPECT_DOUBLE_EQ(OverBestDataParallel(results.cases(0), "diffusionpipe").estimate, 3.75);
  results.mutable_cases(0)->mutable_strategies(2)->set_skipped("does not fit");
  EXPECT_THAT(LinkSpeedsSummary(results), Not(HasSubstr("100 Mb/s")));
}

TEST(LinkSpeedsTest, UnshapedLinksAreNotInTheChart) {
  Results results = TwoSpeeds();
  const std::string both = LinkSpeedsSvg(results);
  EXPECT_THAT(both, HasSubstr(">100</text>"));
  EXPECT_THAT(both, HasSubstr("diffusionpipe"));
  (*results.mutable_cases(1)->mutable_flags())["link"] = "unshaped";
  EXPECT_THAT(LinkSpeedsSvg(results), HasSubstr("nothing to show"));
  EXPECT_THAT(LinkSpeedsText(results), HasSubstr("unshaped: images/s"));
}

}  // namespace
}  // namespace dpipe::bench
