#include "core/report/results/case_analysis.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StrategyResult Result(const std::string& name, std::vector<double> images_per_second) {
  StrategyResult result;
  result.set_strategy(name);
  result.set_is_unfilled_pipeline(name == "gpipe" || name == "1f1b");
  *result.mutable_images_per_second() = {images_per_second.begin(), images_per_second.end()};
  return result;
}

CaseResult Case(const std::vector<StrategyResult>& strategies) {
  CaseResult results;
  results.set_global_batch(32);
  *results.mutable_strategies() = {strategies.begin(), strategies.end()};
  return results;
}

TEST(CaseAnalysisTest, RatioToTheFastestOfRivals) {
  const CaseResult results =
      Case({Result("data_parallel", {100, 50, 102, 51}), Result("zero1", {104, 52, 106.08, 53.04}),
            Result("diffusionpipe", {130, 65, 132.6, 66.3})});
  EXPECT_NEAR(RatioToFastest(results, "diffusionpipe", {"data_parallel", "zero1"}).estimate, 1.25,
              1e-9);
  EXPECT_NEAR(RatioToFastest(results, "diffusionpipe", {"data_parallel"}).estimate, 1.3, 1e-9);
  EXPECT_TRUE(std::isnan(RatioToFastest(results, "gpipe", {"data_parallel"}).estimate));
  EXPECT_TRUE(std::isnan(RatioToFastest(results, "zero1", {"gpipe"}).estimate));
}

TEST(CaseAnalysisTest, SpeedupsAreOfPairsOfTurns) {
  // The machine is half as fast in every other turn, which cancels in pairs.
  CaseResult results =
      Case({Result("data_parallel", {100, 50, 102, 51}), Result("gpipe", {80, 40, 81.6, 40.8}),
            Result("1f1b", {90, 45, 91.8, 45.9}), Result("diffusionpipe", {110, 55, 112.2, 56.1})});
  const CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_EQ(analysis.warm_up_turns, 0);
  const StrategyAnalysis& ours = analysis.strategies[3];
  EXPECT_NEAR(ours.vs_data_parallel.low, 1.1, 1e-9);
  EXPECT_NEAR(ours.vs_data_parallel.high, 1.1, 1e-9);
  EXPECT_NEAR(ours.vs_best_pipeline.estimate, 110.0 / 90, 1e-9);
  EXPECT_LT(ours.images_per_second.low, 60);
  EXPECT_NEAR(ours.step_ms * ours.images_per_second.estimate, 32e3, 1e-6);
  EXPECT_EQ(analysis.Fastest(), &ours);
}

TEST(CaseAnalysisTest, NoisyRunsSayWhatTheyDoNotShow) {
  CaseResult results = Case({Result("data_parallel", {100, 101, 99, 100, 100.5, 99.5}),
                             Result("diffusionpipe", {110, 111, 109, 110, 110.5, 109.5}),
                             Result("offline_cache", {150, 150, 150, 150, 150, 150})});
  results.mutable_strategies(2)->mutable_storage();
  CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_EQ(analysis.NextFastest(), &analysis.strategies[0]) << "comparable ones only";
  EXPECT_NEAR(analysis.fastest_vs_next.estimate, 1.1, 2e-3);
  EXPECT_THAT(NoiseNotes(analysis), ElementsAre());
  *results.mutable_strategies(1) = Result("diffusionpipe", {110, 80, 130, 95, 101, 112});
  analysis = AnalyseCase(results);
  EXPECT_THAT(NoiseNotes(analysis),
              ElementsAre(HasSubstr("Noisy run: the 95 % interval of diffusionpipe's"),
                          HasSubstr("diffusionpipe leads data_parallel by 1.0")));
}

// The machine is slow in the first turns, in which 1f1b happens to be ahead.
TEST(CaseAnalysisTest, RivalsAreRankedWithoutTheWarmUp) {
  const CaseResult results = Case({Result("data_parallel", {30, 100, 100, 100, 100, 100, 100, 100}),
                                   Result("gpipe", {20, 90, 90, 90, 90, 90, 90, 90}),
                                   Result("1f1b", {29, 80, 80, 80, 80, 80, 80, 80})});
  const CaseAnalysis analysis = AnalyseCase(results);
  ASSERT_GE(analysis.warm_up_turns, 1);
  EXPECT_NEAR(analysis.strategies[2].vs_best_pipeline.estimate, 80.0 / 90, 1e-9);
}

// The machine is half as fast in every other turn, and the groups' turns are not simultaneous.
TEST(CaseAnalysisTest, TurnsOfDifferentGroupsAreNoPairs) {
  CaseResult results = Case({Result("data_parallel", {100, 50, 102, 51, 101, 50}),
                             Result("1f1b", {90, 45, 91.8, 45.9, 90.9, 45}),
                             Result("diffusionpipe", {110, 55, 112.2, 56.1, 111.1, 55})});
  EXPECT_EQ(GroupsNote(results), "");
  results.mutable_strategies(2)->set_session_group(1);
  const CaseAnalysis analysis = AnalyseCase(results);
  const StrategyAnalysis& apart = analysis.strategies[2];
  EXPECT_NEAR(apart.vs_data_parallel.estimate, 1.1, 1e-9);
  EXPECT_LT(apart.vs_data_parallel.low, 0.8);
  EXPECT_GT(apart.vs_data_parallel.high, 1.5);
  EXPECT_NEAR(analysis.strategies[1].vs_data_parallel.low, 0.9, 1e-9);
  EXPECT_NEAR(analysis.strategies[1].vs_data_parallel.high, 0.9, 1e-9);
  EXPECT_THAT(GroupsNote(results), HasSubstr("data_parallel, 1f1b; then diffusionpipe. Ratios"));
}

TEST(CaseAnalysisTest, TurnsOfAnyStrategysWarmUpAreLeftOutOfAll) {
  CaseResult results = Case({Result("data_parallel", {100, 101, 100, 99, 100, 101}),
                             Result("1f1b", {40, 90, 91, 90, 89, 90})});
  const CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_EQ(analysis.warm_up_turns, 1);
  EXPECT_GT(analysis.strategies[1].images_per_second.low, 80);
  EXPECT_THAT(analysis.strategies[1].outliers,
              ElementsAre(true, false, false, false, false, false));
}

TEST(CaseAnalysisTest, InvalidResultsHaveNoNumbersAndAreNoRivals) {
  CaseResult results = Case({Result("data_parallel", {100, 101}), Result("1f1b", {90, 91})});
  results.mutable_strategies(0)->set_invalid("its losses differ");
  const CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_TRUE(std::isnan(analysis.strategies[0].images_per_second.estimate));
  EXPECT_TRUE(std::isnan(analysis.strategies[1].vs_data_parallel.estimate));
  EXPECT_EQ(analysis.strategies[1].vs_best_pipeline.estimate, 1);
}

// Reading stored outputs is less work than computing them.
TEST(CaseAnalysisTest, AStrategyThatReadsStoredOutputsIsNotTheFastest) {
  CaseResult results = Case({Result("1f1b", {90, 91}), Result("offline_cache", {120, 121})});
  results.mutable_strategies(1)->mutable_storage()->set_num_images(10);
  const CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_EQ(analysis.Fastest(), &analysis.strategies[0]);
  EXPECT_EQ(CaseAnalysis().Fastest(), nullptr);
}

TEST(CaseAnalysisTest, NoRivalNoSpeedup) {
  const CaseResult results = Case({Result("diffusionpipe", {150})});
  const CaseAnalysis analysis = AnalyseCase(results);
  EXPECT_TRUE(std::isnan(analysis.strategies[0].vs_data_parallel.estimate));
  EXPECT_TRUE(std::isnan(analysis.strategies[0].vs_best_pipeline.estimate));
}

TEST(CaseAnalysisTest, IntervalsAsText) {
  EXPECT_EQ(EstimateText({164.31, 161.9, 166.52}), "164.3");
  EXPECT_EQ(EstimateText({0.52341, 0.5, 0.55}), "0.523");
  EXPECT_EQ(BoundsText({164.31, 161.9, 166.52}), "[161.9, 166.5]");
  EXPECT_EQ(RatioWithBoundsText({1.052, 1.03, 1.071}), "1.05 [1.03, 1.07]");
  EXPECT_EQ(RatioWithBoundsText({0.889, 0.882, 0.892}), "0.89 [0.88, 0.89]");
  EXPECT_EQ(RatioWithBoundsText({3, 3, 3}), "3.00");
  EXPECT_EQ(BoundsText({3, 3, 3}), "");
  EXPECT_EQ(EstimateText({NAN, NAN, NAN}), "-");
  EXPECT_EQ(RatioWithBoundsText({NAN, NAN, NAN}), "-");
}

}  // namespace
}  // namespace dpipe::report
