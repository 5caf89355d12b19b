#include "core/report/results_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ResultsTableTest, OneRowPerStrategy) {
  BenchResults results;
  results.results.resize(2);
  StrategyResult& first = results.results[0];
  first.strategy = "data_parallel";
  first.images_per_second = {99, 100, 102};
  first.step_ms = {320, 300, 310};
  first.step_ms_predicted = 299.96;
  first.bubble_ratio_measured = 0.0421;
  first.step_over_bound = 1.0404;
  first.peak_memory_bytes = {int64_t{3} << 20, int64_t{2} << 20};
  first.losses = {1.5, 0.81239};
  first.plan = {1, 1, 16, 1, ""};
  results.results[1].strategy = "1f1b";
  ComputeSpeedups(&results);
  const Table table = ResultsTable(results);
  ASSERT_EQ(table.num_rows(), 2);
  EXPECT_THAT(table.rows()[0],
              ElementsAre("data_parallel", "100.0 ±1.0", "1.00x", "-", "4.2 %", "-", "310.0",
                          "300.0", "1.040", "3.0 MiB", "0.8124", "1×1×16"));
  EXPECT_THAT(table.rows()[1],
              ElementsAre("1f1b", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "0×0×0"));
  EXPECT_FALSE(table.IsRightAligned(0));
  EXPECT_TRUE(table.IsRightAligned(1));
}

TEST(ResultsTableTest, ASingleTurnHasNoSpread) {
  BenchResults results;
  results.results.resize(1);
  results.results[0].images_per_second = {100};
  EXPECT_EQ(ResultsTable(results).rows()[0][1], "100.0");
}

TEST(ResultsTableTest, InvalidResultsAreMarked) {
  BenchResults results;
  results.results.resize(1);
  results.results[0].strategy = "data_parallel";
  results.results[0].images_per_second = {100, 101};
  results.results[0].invalid = "its losses differ";
  ComputeSpeedups(&results);
  EXPECT_EQ(ResultsTable(results).rows()[0][1], "INVALID");
  EXPECT_EQ(ResultsTable(results).rows()[0][2], "-");
}

TEST(ResultsTableTest, DiskColumnIsShownIfAnythingIsStored) {
  BenchResults results;
  results.results.resize(2);
  results.results[0].strategy = "1f1b";
  results.results[1].strategy = "offline_cache";
  const size_t columns = ResultsTable(results).headers().size();
  EXPECT_THAT(StrategyNotes(results.results[1]), IsEmpty());
  results.results[1].storage = {480, 311, int64_t{15} << 20, 2310.5};
  const Table table = ResultsTable(results);
  ASSERT_EQ(table.headers().size(), columns + 1);
  EXPECT_EQ(table.headers().back(), "on disk");
  EXPECT_EQ(table.rows()[0].back(), "-");
  EXPECT_EQ(table.rows()[1].back(), "15.0 MiB");
  EXPECT_THAT(StrategyNotes(results.results[0]), IsEmpty());
  EXPECT_THAT(
      StrategyNotes(results.results[1]),
      ElementsAre("offline_cache keeps 15.0 MiB on disk: 32.0 KiB for each of 480 images "
                  "and its share of 311 captions; computed in 2.3 s, not counted in any step."));
}

TEST(ResultsTableTest, NotesNameStrategiesWithoutClipping) {
  StrategyResult result;
  result.strategy = "xpipe";
  EXPECT_THAT(StrategyNotes(result), IsEmpty());
  result.clips_gradients = false;
  EXPECT_THAT(StrategyNotes(result),
              ElementsAre("xpipe does not clip gradients: its weights lag behind, so no stage "
                          "knows the norm of all gradients."));
}

TEST(PredictionTextTest, NamesTheDeviationOfStepsAndItsCause) {
  BenchResults results;
  EXPECT_EQ(PredictionText(results), "");
  results.results.resize(2);
  StrategyResult& first = results.results[0];
  first.strategy = "1f1b";
  first.step_ms = {110, 104, 90};
  first.step_ms_predicted = 100;
  first.instruction_times = {{"backward, stage 1", 1, 4, 60, 50}, {"waiting", 0, 0, 10, 5}};
  results.results[1].strategy = "gpipe";  // not executed
  EXPECT_EQ(PredictionText(results),
            "Measured steps differ from predicted ones by 4.0 % (median), at most 4.0 %:\n"
            "1f1b: step +4.0 %; largest deviation: backward, stage 1 on device 1 (4 per step): "
            "60.0 ms per step, predicted 50.0 (+20.0 %)");
  // If only waiting can be compared, no work explains the difference.
  first.instruction_times = {{"waiting", 0, 0, 10, 5}};
  EXPECT_EQ(PredictionText(results),
            "Measured steps differ from predicted ones by 4.0 % (median), at most 4.0 %:\n"
            "1f1b: step +4.0 %");
}

}  // namespace
}  // namespace dpipe::report
