// The table that a benchmark prints: one row a strategy.
#ifndef DPIPE_CORE_REPORT_RESULTS_TABLE_H_
#define DPIPE_CORE_REPORT_RESULTS_TABLE_H_

#include <string>

#include "core/report/results.h"
#include "core/report/table.h"

namespace dpipe::report {

// Columns: strategy; images/s, median and spread (half of the samples lie within ±); speedup over
// data_parallel and over the best unfilled pipeline; bubble ratio and step time, each measured and
// predicted; step over its lower bound; largest peak memory of a device; last loss; the plan as
// stages x micro-batches x micro-batch size. What was not measured is "-".
Table ResultsTable(const BenchResults& results);

// One paragraph that says what the columns mean.
std::string ResultsTableNotes();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_TABLE_H_
