// report.html: a benchmark's results as one self-contained page (no network, no external file).
//
// It shows the machine, speedup bars, the results table, each device's time, one timeline per
// strategy (measured, and the predicted one for comparison), losses, a guide to reading them, the
// command line and flags. It follows the reader's light or dark setting and works on a phone;
// scripts only add zooming.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_REPORT_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_REPORT_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/page/html_strategy.h"
#include "core/report/results.h"

namespace dpipe::report {

// Returns InvalidArgument if a trace does not fit its own plan (see trace_index.h).
absl::StatusOr<std::string> HtmlReport(const BenchResults& results,
                                       const std::vector<StrategyTraces>& traces);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_REPORT_H_
