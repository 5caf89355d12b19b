// Output of a benchmark: a table on the terminal; results, traces and a report as files.
#ifndef DPIPE_BENCH_COMPARISON_OUTPUT_H_
#define DPIPE_BENCH_COMPARISON_OUTPUT_H_

#include <string>

#include "bench/comparison/comparison.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct OutputOptions {
  std::string benchmark;  // "sd_pipeline"
  std::string folder;     // created if missing
  std::string json_path;  // an additional copy of the results; empty: none
  bool explains = false;  // also prints what the columns mean
};

// Completes the results (machine, versions, date). Writes results.json, trace.<strategy>.json
// (for Perfetto) and .pb (a Trace), plan.<strategy>.textproto, profile.textproto,
// cluster.textproto, profile_between_turns.textproto and report.html. Prints the table and the
// files' locations.
absl::Status WriteAndPrint(Comparison* comparison, const OutputOptions& options);

// Returns text on whether the strategies computed the same on the same samples, as found by
// CheckSteps: what INVALID means if one does not count, and the maximum differences of losses and
// gradient norms of the others. Strategies that change the mathematics are listed as not compared.
std::string LossesText(const CaseResult& results);

// True if any strategy's numbers do not count.
bool AnyInvalid(const CaseResult& results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_OUTPUT_H_
