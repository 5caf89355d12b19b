#include "core/report/results_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes.h"
#include "core/report/page/markup.h"
#include "core/report/stats.h"
#include "core/report/timeline/instruction_times.h"

namespace dpipe::report {
namespace {

// Formats `value` with `decimals`; "-" if not measured.
std::string Fixed(double value, int decimals, const char* unit = "") {
  return std::isnan(value) ? "-" : absl::StrFormat("%.*f%s", decimals, value, unit);
}

// Gives at least three significant digits.
int Decimals(double value) { return value >= 100 ? 1 : value >= 10 ? 2 : 3; }

std::string ThroughputText(const StrategyResult& result) {
  if (!result.invalid.empty()) return "INVALID";
  if (result.images_per_second.empty()) return "-";
  const double median = result.MedianImagesPerSecond();
  if (result.images_per_second.size() == 1) return Fixed(median, Decimals(median));
  return absl::StrFormat("%.*f ±%.*f", Decimals(median), median, Decimals(median),
                         SpreadOf(result.images_per_second).mad);
}

std::string StorageNote(const std::string& strategy, const StorageCost& storage) {
  return absl::StrCat(strategy, " keeps ", FormatBytes(storage.disk_bytes),
                      " on disk: ", FormatBytes(static_cast<int64_t>(storage.BytesPerImage())),
                      " for each of ", storage.num_images, " images and its share of ",
                      storage.num_captions, " captions; computed in ",
                      absl::StrFormat("%.1f s", storage.fill_ms / 1e3),
                      ", not counted in any step.");
}

std::string PlanText(const PlanSummary& plan) {
  return absl::StrCat(plan.num_stages, "×", plan.num_micro_batches, "×", plan.micro_batch_size);
}

}  // namespace

Table ResultsTable(const BenchResults& results) {
  const bool has_storage =
      std::any_of(results.results.begin(), results.results.end(),
                  [](const StrategyResult& result) { return result.storage.num_images > 0; });
  std::vector<std::string> headers = {"strategy", "img/s",       "vs data par.", "vs pipeline",
                                      "bubble",   "predicted",   "step ms",      "predicted",
                                      "÷ bound",  "peak memory", "loss",         "S×M×b"};
  if (has_storage) headers.push_back("on disk");
  Table table(headers);
  table.SetAlign(0, Table::Align::kLeft);
  for (const StrategyResult& result : results.results) {
    const int64_t peak_bytes = result.LargestPeakMemoryBytes();
    const double step_ms = result.MedianStepMs();
    std::vector<std::string> cells = {result.strategy,
                                      ThroughputText(result),
                                      Fixed(result.speedup_vs_data_parallel, 2, "x"),
                                      Fixed(result.speedup_vs_best_unfilled_pipeline, 2, "x"),
                                      PercentText(result.bubble_ratio_measured),
                                      PercentText(result.bubble_ratio_predicted),
                                      Fixed(step_ms, Decimals(step_ms)),
                                      Fixed(result.step_ms_predicted, Decimals(step_ms)),
                                      Fixed(result.step_over_bound, 3),
                                      peak_bytes > 0 ? FormatBytes(peak_bytes) : "-",
                                      result.losses.empty() ? "-" : Fixed(result.losses.back(), 4),
                                      PlanText(result.plan)};
    if (has_storage) {
      cells.push_back(result.storage.num_images > 0 ? FormatBytes(result.storage.disk_bytes) : "-");
    }
    table.AddRow(cells);
  }
  return table;
}

std::vector<std::string> StrategyNotes(const StrategyResult& result) {
  std::vector<std::string> notes;
  if (result.storage.num_images > 0) notes.push_back(StorageNote(result.strategy, result.storage));
  if (!result.clips_gradients) {
    notes.push_back(absl::StrCat(result.strategy, " does not clip gradients: its weights lag ",
                                 "behind, so no stage knows the norm of all gradients."));
  }
  return notes;
}

std::string ResultsTableNotes() {
  return "img/s: median over turns ± median absolute deviation (half of the turns lie within it). "
         "vs data par., vs pipeline: speedup over data_parallel and over the faster pipeline with "
         "unfilled bubbles. bubble: idle compute time ÷ (devices × step), steady state, measured "
         "and predicted. step ms: median over turns of a turn's median step. predicted: simulated "
         "from the model's profile, which is taken again between turns if the machine is shared. "
         "÷ bound: measured step ÷ lower bound, which is proven for the profiled times; faster "
         "steps "
         "may be below it. peak memory: of the fullest device. loss: after the same samples. "
         "S×M×b: "
         "stages × micro-batches × samples per micro-batch. on disk: the frozen components' "
         "outputs "
         "that are read back. INVALID: the strategy computed wrong results; its numbers do not "
         "count.";
}

std::string PredictionText(const BenchResults& results) {
  std::string lines;
  std::vector<double> errors;
  for (const StrategyResult& result : results.results) {
    if (result.instruction_times.empty()) continue;
    const double error = result.MedianStepMs() / result.step_ms_predicted - 1;
    errors.push_back(std::abs(error));
    const std::string deviation = LargestDeviationText(result.instruction_times);
    absl::StrAppend(&lines, "\n", result.strategy, absl::StrFormat(": step %+.1f %%", 100 * error),
                    deviation.empty() ? "" : "; ", deviation);
  }
  if (errors.empty()) return "";
  return absl::StrCat("Measured steps differ from predicted ones by ", PercentText(Median(errors)),
                      " (median), at most ",
                      PercentText(*std::max_element(errors.begin(), errors.end())), ":", lines);
}

}  // namespace dpipe::report
