// A suite's results as Markdown, for papers and pull requests, and for the terminal.
#ifndef DPIPE_BENCH_SUITE_TABLES_H_
#define DPIPE_BENCH_SUITE_TABLES_H_

#include <string>
#include <vector>

#include "bench/suite_results.h"
#include "core/report/table.h"

namespace dpipe::bench {

// A row a strategy of a measured case: throughput and speedups with 95 % intervals, bubbles,
// prediction, memory, and whether its losses are right.
report::Table CaseTable(const SuiteCaseResult& result);

// Sentences about a case: what was skipped or does not count, warm-up, outliers.
std::vector<std::string> CaseNotes(const SuiteCaseResult& result);

// "2 CPU devices", "a100_8x1": what a case ran on.
std::string PlaceText(const report::BenchResults& results);

// The whole document: what was run on what by which code, a table a case with its notes, and what
// the columns mean.
std::string SuiteMarkdown(const SuiteResults& results);

// The same tables, aligned.
std::string SuiteText(const SuiteResults& results);

// Results that do not count, and cases that failed: "<case>, <strategy>: <why>".
std::vector<std::string> Failures(const SuiteResults& results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_TABLES_H_
