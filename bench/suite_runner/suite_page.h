// The report.html of a suite: one self-contained page that needs no network, follows the reader's
// light or dark mode, and works on a phone.
//
// The page shows:
// 1. the runs' code and machine, and results that do not count;
// 2. throughput by number of devices, and predicted against measured steps;
// 3. for each case: speedups with intervals, outliers and warm-up, the table, idle time by reason,
//    and folded timelines: measured ones, and within them predicted ones with critical path and
//    memory over time.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_PAGE_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_PAGE_H_

#include <string>
#include <vector>

#include "bench/suite.pb.h"
#include "bench/suite_runner/suite_results.h"
#include "core/base/status.h"

namespace dpipe::bench {

// Returns the page. `traces` has one element per case, in the same order, which may be empty. A
// case with many strategies shows timelines of the fastest only. Returns InvalidArgument if a trace
// does not fit its plan.
absl::StatusOr<std::string> SuitePage(const SuiteResults& results,
                                      const std::vector<CaseTraces>& traces);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_PAGE_H_
