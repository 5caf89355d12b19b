#include "core/report/results/results_table.h"

#include <algorithm>
#include <cstdint>

#include "core/report/text_width.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

void AddTurns(std::vector<double> images_per_second, StrategyResult* result) {
  for (const double speed : images_per_second) result->add_images_per_second(speed);
}

CaseResult TwoStrategies() {
  CaseResult results;
  results.set_id("cpu.a");
  results.set_model("tiny|sd");
  results.set_backend("cpu");
  results.set_num_devices(2);
  results.set_global_batch(31);
  StrategyResult& first = *results.add_strategies();
  first.set_strategy("data_parallel");
  AddTurns({99, 100, 102}, &first);
  first.set_step_ms_predicted(299.96);
  first.set_step_ms_bound(298);
  first.set_bubble_ratio_measured(0.0421);
  first.add_peak_memory_bytes(int64_t{3} << 20);
  first.add_peak_memory_bytes(int64_t{2} << 20);
  first.add_losses(0.81239);
  first.mutable_plan()->set_num_stages(1);
  first.mutable_plan()->set_num_micro_batches(1);
  first.mutable_plan()->set_micro_batch_size(16);
  results.add_strategies()->set_strategy("1f1b");
  return results;
}

std::string Cell(const CaseResult& results, int row, const std::string& header,
                 TableWidth width = TableWidth::kAll) {
  const Table table = ResultsTable(AnalyseCase(results), width);
  const auto found = std::find(table.headers().begin(), table.headers().end(), header);
  return found == table.headers().end() ? "no such column"
                                        : table.rows()[row][found - table.headers().begin()];
}

TEST(ResultsTableTest, OneRowPerStrategy) {
  const CaseResult results = TwoStrategies();
  const Table table = ResultsTable(AnalyseCase(results), TableWidth::kTerminal);
  EXPECT_THAT(table.headers(), ElementsAre("strategy", "img/s", "vs data par.", "bubble", "step ms",
                                           "predicted", "memory", "S×M×b"));
  ASSERT_EQ(table.num_rows(), 2);
  EXPECT_THAT(table.rows()[0], ElementsAre("data_parallel", "100.0", "1.00", "4.2 %", "310.0",
                                           "300.0", "3.0 MiB", "1×1×16"));
  EXPECT_THAT(table.rows()[1], ElementsAre("1f1b", "-", "-", "-", "-", "-", "-", "-"));
  EXPECT_FALSE(table.IsRightAligned(0));
  EXPECT_TRUE(table.IsRightAligned(1));
  EXPECT_EQ(Cell(results, 0, "÷ bound"), "1.040");
  EXPECT_EQ(Cell(results, 0, "loss"), "0.8124");
  EXPECT_THAT(Cell(results, 0, "95 % interval"), HasSubstr("[9"));
}

TEST(ResultsTableTest, ColumnsWithoutAnyValueAreLeftOut) {
  CaseResult results = TwoStrategies();
  EXPECT_EQ(Cell(results, 0, "on disk"), "no such column");
  EXPECT_EQ(Cell(results, 0, "vs pipeline"), "no such column");
  StorageCost& storage = *results.mutable_strategies(1)->mutable_storage();
  storage.set_disk_bytes(int64_t{15} << 20);
  EXPECT_EQ(Cell(results, 0, "on disk"), "-");
  EXPECT_EQ(Cell(results, 1, "on disk"), "15.0 MiB");
}

TEST(ResultsTableTest, PlansThatRecomputeOrShardSaySo) {
  CaseResult results = TwoStrategies();
  results.mutable_strategies(0)->mutable_plan()->set_recomputes(true);
  EXPECT_EQ(Cell(results, 0, "S×M×b"), "1×1×16 r");
  results.mutable_strategies(0)->mutable_plan()->set_sharded(true);
  EXPECT_EQ(Cell(results, 0, "S×M×b"), "1×1×16 r z");
}

TEST(ResultsTableTest, InvalidResultsAreMarked) {
  CaseResult results = TwoStrategies();
  results.mutable_strategies(0)->set_invalid("its losses differ");
  EXPECT_EQ(Cell(results, 0, "img/s"), "INVALID");
  EXPECT_EQ(Cell(results, 0, "vs data par."), "no such column");
}

// The longest names and numbers that the built-in benchmarks print.
TEST(ResultsTableTest, ATerminalIsWideEnough) {
  CaseResult results;
  results.set_global_batch(32);
  for (const char* name : {"data_parallel", "1f1b", "opendiffusionpipe"}) {
    StrategyResult& result = *results.add_strategies();
    result.set_strategy(name);
    result.set_is_unfilled_pipeline(true);
    AddTurns({164, 165, 170, 169, 150, 166, 164, 163}, &result);
    result.set_bubble_ratio_measured(0.123);
    result.set_step_ms_predicted(1234.5);
    result.add_peak_memory_bytes(int64_t{700} << 20);
    result.mutable_plan()->set_num_stages(2);
    result.mutable_plan()->set_num_micro_batches(16);
    result.mutable_plan()->set_micro_batch_size(2);
    result.mutable_plan()->set_recomputes(true);
    result.mutable_plan()->set_sharded(true);
  }
  const std::string text = ResultsTable(AnalyseCase(results), TableWidth::kTerminal).ToText();
  EXPECT_LE(DisplayWidth(text.substr(0, text.find('\n'))), 120) << text;
}

// The last columns are left out.
TEST(ResultsTableTest, ALongCompositionLeavesRoomForFewerColumns) {
  CaseResult results = TwoStrategies();
  results.mutable_strategies(1)->set_strategy(
      "schedule=interleaved,partitioner=skip_aware,frozen=fill,recompute=auto");
  const Table table = ResultsTable(AnalyseCase(results), TableWidth::kTerminal);
  EXPECT_LE(table.TextWidth(), kTerminalWidth);
  EXPECT_EQ(table.headers()[1], "img/s");
  EXPECT_LT(table.headers().size(), 8u);
  EXPECT_GT(ResultsTable(AnalyseCase(results), TableWidth::kAll).headers().size(), 8u);
}

TEST(ResultsTableTest, TheGlossaryExplainsTheShownColumns) {
  EXPECT_THAT(ResultsTableGlossary(TableWidth::kTerminal),
              AllOf(HasSubstr("bubble: idle compute time"), Not(HasSubstr("÷ bound"))));
  EXPECT_THAT(ResultsTableGlossary(TableWidth::kAll), HasSubstr("÷ bound: "));
  EXPECT_EQ(ResultsTableMeanings(TableWidth::kTerminal).front().header, "img/s");
}

TEST(CaseNotesTest, NamePeculiarities) {
  CaseResult results;
  EXPECT_THAT(CaseNotes(results, AnalyseCase(results)), IsEmpty());
  StrategyResult& cached = *results.add_strategies();
  cached.set_strategy("offline_cache");
  cached.mutable_storage()->set_num_images(480);
  cached.mutable_storage()->set_num_captions(311);
  cached.mutable_storage()->set_disk_bytes(int64_t{15} << 20);
  cached.mutable_storage()->set_fill_ms(2310.5);
  StrategyResult& relaxed = *results.add_strategies();
  relaxed.set_strategy("xpipe");
  relaxed.set_clips_gradients(false);
  StrategyResult& wrong = *results.add_strategies();
  wrong.set_strategy("gpipe");
  wrong.set_invalid("the loss of step 1 is nan");
  StrategyResult& skipped = *results.add_strategies();
  skipped.set_strategy("1f1b");
  skipped.set_skipped("needs 4 devices");
  results.set_interrupted("SIGINT after 3 of 15 turns");
  EXPECT_THAT(
      CaseNotes(results, AnalyseCase(results)),
      ElementsAre("Stopped by SIGINT after 3 of 15 turns.",
                  "offline_cache keeps 15.0 MiB on disk: 32.0 KiB for each of 480 images and its "
                  "share of 311 captions; computed in 2.3 s, not counted in any step.",
                  "xpipe does not clip gradients: its weights lag behind, so no stage knows the "
                  "norm of all gradients.",
                  "INVALID gpipe: the loss of step 1 is nan.", "Skipped 1f1b: needs 4 devices."));
}

TEST(PredictionNotesTest, NameTheDeviationOfStepsAndItsCause) {
  CaseResult results;
  results.set_global_batch(104);
  StrategyResult& first = *results.add_strategies();
  first.set_strategy("1f1b");
  first.add_images_per_second(1000);  // steps of 104 ms
  first.set_step_ms_predicted(100);
  results.add_strategies()->set_strategy("gpipe");  // not executed
  EXPECT_THAT(PredictionNotes(AnalyseCase(results)), IsEmpty());
  InstructionTimes& backward = *first.add_instruction_times();
  backward.set_work("backward, stage 1");
  backward.set_device(1);
  backward.set_per_step(4);
  backward.set_measured_ms(60);
  backward.set_predicted_ms(50);
  const std::string summary =
      "Measured steps differ from predicted ones by 4.0 % (median), at most 4.0 %:";
  EXPECT_THAT(PredictionNotes(AnalyseCase(results)),
              ElementsAre(summary,
                          "1f1b: step +4.0 %; largest deviation: backward, stage 1 on "
                          "device 1 (4 per step): 60.0 ms per step, predicted 50.0 "
                          "(+20.0 %)"));
  // If only waiting can be compared, no work explains the difference.
  backward.set_work("waiting");
  backward.set_per_step(0);
  EXPECT_THAT(PredictionNotes(AnalyseCase(results)), ElementsAre(summary, "1f1b: step +4.0 %"));
}

TEST(ResultsDocumentTest, HasEveryCaseWithItsFailures) {
  Results results;
  results.set_benchmark("small");
  for (const char* id : {"cpu.a", "cpu.b"}) {
    *results.add_cases() = TwoStrategies();
    results.mutable_cases(results.cases_size() - 1)->set_id(id);
  }
  results.mutable_cases(0)->mutable_strategies(0)->set_invalid("the loss of step 1 is nan");
  results.mutable_cases(1)->set_state(CaseResult::FAILED);
  results.mutable_cases(1)->set_reason("out of memory");
  results.mutable_cases(1)->clear_strategies();
  EXPECT_THAT(ResultsMarkdown(results),
              AllOf(HasSubstr("# small"), HasSubstr("## tiny|sd, 2 devices, batch 31, cpu"),
                    HasSubstr("INVALID data_parallel: the loss of step 1 is nan."),
                    HasSubstr("Failed: out of memory."), HasSubstr("÷ bound: ")));
  EXPECT_THAT(ResultsText(results), HasSubstr("Failed: out of memory."));
  EXPECT_THAT(Failures(results), ElementsAre("cpu.a, data_parallel: the loss of step 1 is nan",
                                             "cpu.b: out of memory"));
  results.mutable_cases(1)->mutable_machine()->set_num_logical_cores(4);
  EXPECT_THAT(ResultsMarkdown(results), HasSubstr("**Mixed runs:** cpu.b"));
}

}  // namespace
}  // namespace dpipe::report
