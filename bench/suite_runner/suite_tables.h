// A suite's results as Markdown, for papers and pull requests, and as text for the terminal.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_TABLES_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_TABLES_H_

#include <string>
#include <vector>

#include "bench/suite_runner/suite_results.h"
#include "core/report/table.h"

namespace dpipe::bench {

// Returns a table with a row per strategy of a measured case: throughput and speedups with 95 %
// intervals, bubbles, prediction, memory, and the check of its losses.
report::Table CaseTable(const SuiteCaseResult& result);

// Returns sentences about a case: skipped strategies, results that do not count, warm-up, outliers.
std::vector<std::string> CaseNotes(const SuiteCaseResult& result);

// Returns the devices or the cluster that a case ran on: "2 devices", "a100_8x1 (8 devices)".
std::string PlaceText(const report::BenchResults& results);

// Returns the whole document: code and machine, a table per case with its notes, and the meaning of
// the columns.
std::string SuiteMarkdown(const SuiteResults& results);

// Returns the same tables as aligned text.
std::string SuiteText(const SuiteResults& results);

// Returns results that do not count and cases that failed: "<case>, <strategy>: <why>".
std::vector<std::string> Failures(const SuiteResults& results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_TABLES_H_
