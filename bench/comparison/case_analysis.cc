#include "bench/comparison/case_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/statistics/outliers.h"
#include "bench/statistics/warm_up.h"

namespace dpipe::bench {
namespace {

constexpr Interval kUnknown = {report::kNotMeasured, report::kNotMeasured, report::kNotMeasured};

// NaN unless both count and took equally many turns.
Interval Ratio(const report::StrategyResult& of, const report::StrategyResult* over, int warm_up) {
  if (over == nullptr || !of.counts() || !over->counts() ||
      of.images_per_second.size() != over->images_per_second.size()) {
    return kUnknown;
  }
  const std::vector<double> numerators = WithoutFirst(of.images_per_second, warm_up);
  const std::vector<double> denominators = WithoutFirst(over->images_per_second, warm_up);
  // Turns of different groups cannot be paired: they were not taken at about the same time.
  return of.session_group == over->session_group ? PairedRatioInterval(numerators, denominators)
                                                 : RatioInterval(numerators, denominators);
}

const report::StrategyResult* BestUnfilledPipeline(const report::BenchResults& results) {
  const report::StrategyResult* best = nullptr;
  for (const report::StrategyResult& result : results.results) {
    if (!result.is_unfilled_pipeline || !result.counts()) continue;
    if (best == nullptr || result.MedianImagesPerSecond() > best->MedianImagesPerSecond()) {
      best = &result;
    }
  }
  return best;
}

// Chosen for at least three significant digits.
int Decimals(double value) { return value >= 100 ? 1 : value >= 10 ? 2 : value >= 1 ? 2 : 3; }

}  // namespace

std::vector<double> WithoutFirst(const std::vector<double>& samples, int first) {
  return {samples.begin() + std::min<size_t>(first, samples.size()), samples.end()};
}

std::string GroupsNote(const report::BenchResults& results) {
  std::map<int, std::vector<std::string>> groups;
  for (const report::StrategyResult& result : results.results) {
    if (result.skipped.empty()) groups[result.session_group].push_back(result.strategy);
  }
  if (groups.size() < 2) return "";
  std::string text =
      "The devices had no memory for all strategies together, so groups were measured one after "
      "another: ";
  const char* separator = "";
  for (const auto& [number, strategies] : groups) {
    absl::StrAppend(&text, separator, absl::StrJoin(strategies, ", "));
    separator = "; then ";
  }
  return text +
         ". Ratios between strategies of different groups are of medians, not of turns taken one "
         "after another: they include other work on the machine.";
}

CaseAnalysis AnalyseCase(const report::BenchResults& results) {
  CaseAnalysis analysis;
  for (const report::StrategyResult& result : results.results) {
    analysis.warm_up_turns =
        std::max(analysis.warm_up_turns, WarmUpLength(result.images_per_second));
  }
  const report::StrategyResult* data_parallel = results.Find("data_parallel");
  const report::StrategyResult* pipeline = BestUnfilledPipeline(results);
  for (const report::StrategyResult& result : results.results) {
    StrategyAnalysis strategy;
    strategy.result = &result;
    strategy.outliers = FindOutliers(result.images_per_second);
    strategy.images_per_second =
        result.counts()
            ? MedianInterval(WithoutFirst(result.images_per_second, analysis.warm_up_turns))
            : kUnknown;
    strategy.vs_data_parallel = Ratio(result, data_parallel, analysis.warm_up_turns);
    strategy.vs_best_pipeline = Ratio(result, pipeline, analysis.warm_up_turns);
    analysis.strategies.push_back(std::move(strategy));
  }
  return analysis;
}

std::string IntervalText(const Interval& interval, const char* unit) {
  if (std::isnan(interval.estimate)) return "-";
  const int decimals = Decimals(interval.estimate);
  const std::string estimate = absl::StrFormat("%.*f%s", decimals, interval.estimate, unit);
  if (interval.low == interval.high) return estimate;
  return absl::StrCat(
      estimate, absl::StrFormat(" [%.*f, %.*f]", decimals, interval.low, decimals, interval.high));
}

}  // namespace dpipe::bench
