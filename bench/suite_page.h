// report.html of a suite: one self-contained page, without a network, light and dark after the
// reader's system, usable on a phone.
//
// What was run by which code on what; what does not count; throughput against devices; predicted
// against measured; then for each case its speedups with intervals, outliers and warm-up, its
// table, its idle time by reason, and its timelines, packed in a fold: measured ones, and folded
// behind them the predicted ones with critical path and memory over time.
#ifndef DPIPE_BENCH_SUITE_PAGE_H_
#define DPIPE_BENCH_SUITE_PAGE_H_

#include <string>
#include <vector>

#include "bench/suite.pb.h"
#include "bench/suite_results.h"
#include "core/base/status.h"

namespace dpipe::bench {

// `traces` has one for each case, in their order, and may be empty of some. A case with many
// strategies has the timelines of its fastest alone. InvalidArgument where a trace does not fit its
// plan.
absl::StatusOr<std::string> SuitePage(const SuiteResults& results,
                                      const std::vector<CaseTraces>& traces);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_PAGE_H_
