// What a benchmark leaves behind: the table on the terminal; results, traces and the report as
// files.
#ifndef DPIPE_BENCH_OUTPUT_H_
#define DPIPE_BENCH_OUTPUT_H_

#include <string>

#include "bench/comparison.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct OutputOptions {
  std::string folder;     // made if missing
  std::string json_path;  // another place for the results; empty: none
};

// Completes the results (machine, versions, date), writes results.json, trace.<strategy>.json,
// plan.<strategy>.textproto, profile.textproto, cluster.textproto and report.html, prints the table
// and where the files are.
absl::Status WriteAndPrint(Comparison* comparison, const OutputOptions& options);

// Whether the strategies computed the same on the same samples: a line for each that does not
// count, with the reason, and how far the losses and gradients of the others are apart (CheckSteps
// has compared them). Those of another mathematics are named as not compared.
std::string LossesText(const report::BenchResults& results);

// Whether any strategy's numbers do not count.
bool AnyInvalid(const report::BenchResults& results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_OUTPUT_H_
