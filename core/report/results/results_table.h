// Results as tables and sentences: the one definition of columns for terminal, Markdown and HTML.
#ifndef DPIPE_CORE_REPORT_RESULTS_RESULTS_TABLE_H_
#define DPIPE_CORE_REPORT_RESULTS_RESULTS_TABLE_H_

#include <string>
#include <vector>

#include "core/proto/results.pb.h"
#include "core/report/results/case_analysis.h"
#include "core/report/table.h"

namespace dpipe::report {

enum class TableWidth {
  kTerminal,  // at most 120 characters: the most important columns, the first ones
  kAll,
};

// Returns a table with a row per strategy that was not skipped: throughput and speedups with 95 %
// intervals, bubbles, steps, memory, losses, plan. Columns without any value are left out. "-" if
// not measured.
Table ResultsTable(const CaseAnalysis& analysis, TableWidth width);

// A column's header and its meaning.
struct ColumnMeaning {
  std::string header, meaning;
};

// Returns the columns that need an explanation.
std::vector<ColumnMeaning> ResultsTableMeanings(TableWidth width);

// Returns one paragraph that explains the columns.
std::string ResultsTableGlossary(TableWidth width);

// Returns "tiny_sd, 2 devices, batch 32, cpu, fp32".
std::string CaseTitle(const CaseResult& results);

// Returns sentences about a case: skipped strategies, results that do not count, peculiarities of
// strategies, warm-up, outliers, predictions.
std::vector<std::string> CaseNotes(const CaseResult& results, const CaseAnalysis& analysis);

// Returns results that do not count and cases that failed: "<case>, <strategy>: <why>".
std::vector<std::string> Failures(const Results& results);

// Describes how far predicted steps are from measured ones: a summary over all executed strategies,
// then one line for each with the work that is furthest off. Empty if no strategy was both
// predicted and executed.
std::vector<std::string> PredictionNotes(const CaseAnalysis& analysis);

// True if something was measured or emulated, as opposed to only simulated, so that predictions can
// be compared with it.
bool WasExecuted(const StrategyResult& result);

// Returns the whole document: code and machine, a table per case with its notes, and the meaning of
// the columns.
std::string ResultsMarkdown(const Results& results);

// Returns the same tables as aligned text, for a terminal.
std::string ResultsText(const Results& results);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_RESULTS_TABLE_H_
