// What the turns of a case say: medians and speedups with their intervals, outliers, warm-up.
#ifndef DPIPE_BENCH_CASE_ANALYSIS_H_
#define DPIPE_BENCH_CASE_ANALYSIS_H_

#include <string>
#include <vector>

#include "bench/statistics/bootstrap.h"
#include "core/report/results.h"

namespace dpipe::bench {

struct StrategyAnalysis {
  const report::StrategyResult* result = nullptr;  // not owned
  // Of its turns' images per second, without the warm-up; all NaN where it does not count.
  Interval images_per_second;
  // Of pairs of turns; of medians where the two were in different groups; NaN without that rival.
  Interval vs_data_parallel;
  Interval vs_best_pipeline;   // over the unfilled pipeline of the highest median
  std::vector<bool> outliers;  // a turn, the warm-up's too; they are counted like others
};

struct CaseAnalysis {
  // Turns at the beginning in which some strategy had not settled yet: left out of all.
  int warm_up_turns = 0;
  std::vector<StrategyAnalysis> strategies;  // in the order of the results
};

// `results` outlives the analysis.
CaseAnalysis AnalyseCase(const report::BenchResults& results);

// Which strategies took turns with which, in a sentence, where there were groups
// (session_groups.h); else "".
std::string GroupsNote(const report::BenchResults& results);

// Samples from `first` on.
std::vector<double> WithoutFirst(const std::vector<double>& samples, int first);

// "164.3 [161.9, 166.5]", "1.05x [1.03, 1.07]"; an interval of no width is left out, and "-" where
// nothing was measured.
std::string IntervalText(const Interval& interval, const char* unit = "");

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_CASE_ANALYSIS_H_
