// Results as one self-contained page (no network, no external file).
//
// It shows the machine, key numbers, and for each case speedup bars, the results table, idle time,
// losses and timelines (measured, and the predicted one for comparison); a guide to reading them,
// the command line and flags. It follows the reader's light or dark setting and works on a phone;
// scripts only add zooming, and unpack the timelines of pages with several cases.
#ifndef DPIPE_CORE_REPORT_PAGE_RESULTS_PAGE_H_
#define DPIPE_CORE_REPORT_PAGE_RESULTS_PAGE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/results.pb.h"
#include "core/report/page/html_timeline.h"

namespace dpipe::report {

// `traces` are of the strategies of each case, in the order of the cases; later ones have none.
// Returns InvalidArgument if a trace does not fit its own plan (see trace_index.h).
absl::StatusOr<std::string> ResultsPage(const Results& results,
                                        const std::vector<std::vector<StrategyTraces>>& traces);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_RESULTS_PAGE_H_
