// The table that a benchmark prints: one row per strategy.
#ifndef DPIPE_CORE_REPORT_RESULTS_TABLE_H_
#define DPIPE_CORE_REPORT_RESULTS_TABLE_H_

#include <string>
#include <vector>

#include "core/report/results.h"
#include "core/report/table.h"

namespace dpipe::report {

// Columns: strategy; images/s (the median and, for several turns, the median absolute deviation;
// INVALID if the numbers do not count); speedup over data_parallel and over the best unfilled
// pipeline; bubble ratio and step time, each measured and predicted; step over its lower bound;
// maximum peak memory of a device; last loss; plan as stages x micro-batches x micro-batch size;
// and disk space, if any strategy needs it. "-" if not measured.
Table ResultsTable(const BenchResults& results);

// Returns one sentence for each peculiarity of a strategy:
//   "offline_cache keeps 14.2 MiB on disk: 30.2 KiB for each of 480 images and its share of 311
//   captions; computed in 2.3 s, counted in no step."
//   "xpipe does not clip gradients: its weights lag behind, so that no stage knows the norm of
//   all."
std::vector<std::string> StrategyNotes(const StrategyResult& result);

// Returns one paragraph that explains the columns.
std::string ResultsTableNotes();

// Describes how far predicted steps are from measured ones: a summary over all executed strategies,
// then one line for each with the work that is furthest off. Empty if no strategy was both
// predicted and executed.
std::string PredictionText(const BenchResults& results);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_TABLE_H_
