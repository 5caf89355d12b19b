#include "core/report/results/case_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/results/results.h"
#include "core/report/statistics/stats.h"

namespace dpipe::report {
namespace {

constexpr Interval kUnknown = {NAN, NAN, NAN};

// NaN unless both count and took equally many turns.
Interval Ratio(const StrategyResult& of, const StrategyResult* over, int warm_up) {
  if (over == nullptr || !Counts(of) || !Counts(*over) ||
      of.images_per_second_size() != over->images_per_second_size()) {
    return kUnknown;
  }
  const std::vector<double> numerators = WithoutFirst(Numbers(of.images_per_second()), warm_up);
  const std::vector<double> denominators =
      WithoutFirst(Numbers(over->images_per_second()), warm_up);
  // Turns of different groups cannot be paired: they were not taken at about the same time.
  return of.session_group() == over->session_group() ? PairedRatioInterval(numerators, denominators)
                                                     : RatioInterval(numerators, denominators);
}

// Returns nullptr if none counts. Turns of the warm-up are left out.
template <typename IsRival>
const StrategyResult* FastestWhere(const CaseResult& results, int warm_up, IsRival is_rival) {
  const StrategyResult* best = nullptr;
  double best_speed = 0;
  for (const StrategyResult& result : results.strategies()) {
    if (!is_rival(result) || !Counts(result)) continue;
    const double speed = Median(WithoutFirst(Numbers(result.images_per_second()), warm_up));
    if (best != nullptr && speed <= best_speed) continue;
    best = &result;
    best_speed = speed;
  }
  return best;
}

int WarmUpTurns(const CaseResult& results) {
  int turns = 0;
  for (const StrategyResult& result : results.strategies()) {
    turns = std::max(turns, WarmUpLength(Numbers(result.images_per_second())));
  }
  return turns;
}

// Chosen for at least three significant digits.
int Decimals(double value) { return value >= 100 ? 1 : value >= 10 ? 2 : value >= 1 ? 2 : 3; }

constexpr int kRatioDecimals = 2;

std::string NumberText(double value, int decimals) {
  return std::isnan(value) ? "-" : absl::StrFormat("%.*f", decimals, value);
}

std::string Bracketed(const Interval& interval, int decimals) {
  if (std::isnan(interval.estimate) || interval.low == interval.high) return "";
  return absl::StrFormat("[%.*f, %.*f]", decimals, interval.low, decimals, interval.high);
}

}  // namespace

std::vector<double> WithoutFirst(const std::vector<double>& samples, int first) {
  return {samples.begin() + std::min<size_t>(first, samples.size()), samples.end()};
}

std::string GroupsNote(const CaseResult& results) {
  std::map<int, std::vector<std::string>> groups;
  for (const StrategyResult& result : results.strategies()) {
    if (result.skipped().empty()) groups[result.session_group()].push_back(result.strategy());
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

CaseAnalysis AnalyseCase(const CaseResult& results) {
  CaseAnalysis analysis;
  analysis.warm_up_turns = WarmUpTurns(results);
  const StrategyResult* data_parallel = FindStrategyResult(results, "data_parallel");
  const StrategyResult* pipeline =
      FastestWhere(results, analysis.warm_up_turns,
                   [](const StrategyResult& r) { return r.is_unfilled_pipeline(); });
  for (const StrategyResult& result : results.strategies()) {
    StrategyAnalysis strategy;
    strategy.result = &result;
    strategy.outliers = FindOutliers(Numbers(result.images_per_second()));
    strategy.images_per_second =
        Counts(result) ? MedianInterval(WithoutFirst(Numbers(result.images_per_second()),
                                                     analysis.warm_up_turns))
                       : kUnknown;
    strategy.step_ms = 1e3 * results.global_batch() / strategy.images_per_second.estimate;
    strategy.vs_data_parallel = Ratio(result, data_parallel, analysis.warm_up_turns);
    strategy.vs_best_pipeline = Ratio(result, pipeline, analysis.warm_up_turns);
    analysis.strategies.push_back(std::move(strategy));
  }
  const StrategyAnalysis* next = analysis.NextFastest();
  analysis.fastest_vs_next =
      next == nullptr ? kUnknown
                      : Ratio(*analysis.Fastest()->result, next->result, analysis.warm_up_turns);
  return analysis;
}

Interval RatioToFastest(const CaseResult& results, absl::string_view of,
                        const std::vector<std::string>& rivals) {
  const StrategyResult* result = FindStrategyResult(results, of);
  if (result == nullptr) return kUnknown;
  const int warm_up = WarmUpTurns(results);
  const StrategyResult* rival = FastestWhere(results, warm_up, [&](const StrategyResult& r) {
    return std::find(rivals.begin(), rivals.end(), r.strategy()) != rivals.end();
  });
  return Ratio(*result, rival, warm_up);
}

const StrategyAnalysis* CaseAnalysis::Ranked(size_t place) const {
  std::vector<const StrategyAnalysis*> ranked;
  for (const StrategyAnalysis& strategy : strategies) {
    if (std::isnan(strategy.images_per_second.estimate) || IsUpperReference(*strategy.result)) {
      continue;
    }
    ranked.push_back(&strategy);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto* a, const auto* b) {
    return a->images_per_second.estimate > b->images_per_second.estimate;
  });
  return place < ranked.size() ? ranked[place] : nullptr;
}

bool IsUpperReference(const StrategyResult& result) { return result.has_storage(); }

std::vector<std::string> NoiseNotes(const CaseAnalysis& analysis) {
  constexpr double kQuiet = 0.05;  // half-width of a quiet run's intervals
  std::vector<std::string> notes;
  const StrategyAnalysis* widest = nullptr;
  const auto half_width = [](const StrategyAnalysis& strategy) {
    const Interval& interval = strategy.images_per_second;
    return (interval.high - interval.low) / (2 * interval.estimate);
  };
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    if (std::isnan(strategy.images_per_second.estimate)) continue;
    if (widest == nullptr || half_width(strategy) > half_width(*widest)) widest = &strategy;
  }
  if (widest != nullptr && half_width(*widest) > kQuiet) {
    notes.push_back(absl::StrCat(
        "Noisy run: the 95 % interval of ", widest->result->strategy(), "'s ",
        EstimateText(widest->images_per_second), " img/s is ",
        BoundsText(widest->images_per_second),
        absl::StrFormat(" (±%.0f %%)", 100 * half_width(*widest)),
        "; trust ratios only as far as their intervals go. A quiet machine or more turns help."));
  }
  const Interval& lead = analysis.fastest_vs_next;
  if (lead.low < lead.high && lead.Contains(1)) {
    notes.push_back(absl::StrCat(analysis.Fastest()->result->strategy(), " leads ",
                                 analysis.NextFastest()->result->strategy(), " by ",
                                 RatioWithBoundsText(lead),
                                 ": this run does not tell which of them is faster."));
  }
  return notes;
}

std::string EstimateText(const Interval& interval) {
  return NumberText(interval.estimate, Decimals(interval.estimate));
}

std::string RatioText(const Interval& ratio) { return NumberText(ratio.estimate, kRatioDecimals); }

std::string BoundsText(const Interval& interval) {
  return Bracketed(interval, Decimals(interval.estimate));
}

std::string RatioWithBoundsText(const Interval& ratio) {
  const std::string bounds = Bracketed(ratio, kRatioDecimals);
  return absl::StrCat(RatioText(ratio), bounds.empty() ? "" : " ", bounds);
}

}  // namespace dpipe::report
