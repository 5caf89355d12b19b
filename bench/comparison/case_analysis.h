// Analyses the turns of a case: medians and speedups with their intervals, outliers, warm-up.
#ifndef DPIPE_BENCH_COMPARISON_CASE_ANALYSIS_H_
#define DPIPE_BENCH_COMPARISON_CASE_ANALYSIS_H_

#include <string>
#include <vector>

#include "bench/statistics/bootstrap.h"
#include "core/report/results.h"

namespace dpipe::bench {

struct StrategyAnalysis {
  const report::StrategyResult* result = nullptr;  // not owned
  // Median over the turns without the warm-up; all NaN if the strategy does not count.
  Interval images_per_second;
  // Ratios of paired turns, or of medians if the two were in different groups; NaN if the other
  // strategy is missing or either does not count.
  Interval vs_data_parallel;
  Interval vs_best_pipeline;   // over the unfilled pipeline of the highest median
  std::vector<bool> outliers;  // one per turn, warm-up included; outliers count like other turns
};

struct CaseAnalysis {
  // Turns at the beginning before every strategy had settled; excluded from all statistics.
  int warm_up_turns = 0;
  std::vector<StrategyAnalysis> strategies;  // in the order of the results
};

// Analyses `results`, which outlive the analysis.
CaseAnalysis AnalyseCase(const report::BenchResults& results);

// Returns a sentence on which strategies took turns with which, if there were several groups
// (session_groups.h); otherwise "".
std::string GroupsNote(const report::BenchResults& results);

// Returns the samples from index `first` on.
std::vector<double> WithoutFirst(const std::vector<double>& samples, int first);

// Returns "164.3 [161.9, 166.5]" or "1.05x [1.03, 1.07]"; without brackets if the interval has no
// width, and "-" if nothing was measured.
std::string IntervalText(const Interval& interval, const char* unit = "");

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_CASE_ANALYSIS_H_
