// Analyses the turns of a case: medians and speedups with their intervals, outliers, warm-up.
#ifndef DPIPE_CORE_REPORT_RESULTS_CASE_ANALYSIS_H_
#define DPIPE_CORE_REPORT_RESULTS_CASE_ANALYSIS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/proto/results.pb.h"
#include "core/report/statistics/intervals.h"

namespace dpipe::report {

// A strategy of a case. Quantities are NaN if they were not measured or do not count.
struct StrategyAnalysis {
  const StrategyResult* result = nullptr;  // not owned
  // Median over the turns without the warm-up.
  Interval images_per_second;
  double step_ms = 0;  // of that throughput
  // Ratios of paired turns, or of medians if the two were in different groups.
  Interval vs_data_parallel;
  Interval vs_best_pipeline;   // over the unfilled pipeline of the highest median
  std::vector<bool> outliers;  // one per turn, warm-up included; outliers count like other turns
};

struct CaseAnalysis {
  // Turns at the beginning before every strategy had settled; excluded from all statistics of
  // turns.
  int warm_up_turns = 0;
  std::vector<StrategyAnalysis> strategies;  // in the order of the results
  // Throughput of Fastest() over that of NextFastest(); NaN unless there are both.
  Interval fastest_vs_next;

  // Return the comparable strategies of the highest and second-highest median throughput; nullptr
  // if none counts.
  const StrategyAnalysis* Fastest() const { return Ranked(0); }
  const StrategyAnalysis* NextFastest() const { return Ranked(1); }

 private:
  const StrategyAnalysis* Ranked(size_t place) const;
};

// True if the strategy reads stored frozen outputs. It then does less work than the others, so it
// is an upper reference and not comparable to them.
bool IsUpperReference(const StrategyResult& result);

// Returns sentences on differences that the noise of this run hides; empty for a quiet run.
std::vector<std::string> NoiseNotes(const CaseAnalysis& analysis);

// Analyses `results`, which outlive the analysis.
CaseAnalysis AnalyseCase(const CaseResult& results);

// Returns the throughput of strategy `of` over that of the fastest of `rivals` that was measured.
// NaN if either was not measured. The same turns and pairs as in the analysis of the case.
Interval RatioToFastest(const CaseResult& results, absl::string_view of,
                        const std::vector<std::string>& rivals);

// Returns a sentence on which strategies took turns with which, if there were several groups;
// otherwise "".
std::string GroupsNote(const CaseResult& results);

// Returns the samples from index `first` on.
std::vector<double> WithoutFirst(const std::vector<double>& samples, int first);

// Return "164.3" with at least three digits, and "1.05" for a ratio; "-" if nothing was measured.
std::string EstimateText(const Interval& interval);
std::string RatioText(const Interval& ratio);
// Return "[161.9, 166.5]" and "1.05 [1.03, 1.07]"; no brackets if the interval has no width.
std::string BoundsText(const Interval& interval);
std::string RatioWithBoundsText(const Interval& ratio);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_CASE_ANALYSIS_H_
