// The table that a benchmark prints: one row a strategy.
#ifndef DPIPE_CORE_REPORT_RESULTS_TABLE_H_
#define DPIPE_CORE_REPORT_RESULTS_TABLE_H_

#include <string>
#include <vector>

#include "core/report/results.h"
#include "core/report/table.h"

namespace dpipe::report {

// Columns: strategy; images/s, median and, of several turns, their median absolute deviation, or
// INVALID where they do not count; speedup over
// data_parallel and over the best unfilled pipeline; bubble ratio and step time, each measured and
// predicted; step over its lower bound; largest peak memory of a device; last loss; the plan as
// stages x micro-batches x micro-batch size; where a strategy keeps anything on disk, also how
// much. What was not measured is "-".
Table ResultsTable(const BenchResults& results);

// What a strategy does that others do not, a sentence each:
// "offline_cache keeps 14.2 MiB on disk: 30.2 KiB for each of 480 images and its share of 311
// captions; computed in 2.3 s, counted in no step."
// "xpipe does not clip gradients: its weights lag behind, so that no stage knows the norm of all."
std::vector<std::string> StrategyNotes(const StrategyResult& result);

// One paragraph that says what the columns mean.
std::string ResultsTableNotes();

// How far predicted steps are from measured ones: of all strategies that were executed, and a line
// each with the work that is off most. Empty where nothing was predicted and executed.
std::string PredictionText(const BenchResults& results);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_TABLE_H_
