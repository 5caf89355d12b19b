// report.html: one self-contained page (no network, no external file) that shows what a benchmark
// found.
//
// Machine, speedup bars, the table of results, where each device's time went, one timeline a
// strategy (measured, and the predicted one to compare with), losses, how to read it all, command
// line and flags. Light and dark after the reader's system, usable on a phone; scripts only add
// zooming.
#ifndef DPIPE_CORE_REPORT_HTML_REPORT_H_
#define DPIPE_CORE_REPORT_HTML_REPORT_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/html_strategy.h"
#include "core/report/results.h"

namespace dpipe::report {

// InvalidArgument if a trace does not fit its own plan (see trace_index.h).
absl::StatusOr<std::string> HtmlReport(const BenchResults& results,
                                       const std::vector<StrategyTraces>& traces);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_REPORT_H_
