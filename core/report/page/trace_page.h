// A self-contained page (no network, no external file) for one trace or a comparison of several.
#ifndef DPIPE_CORE_REPORT_PAGE_TRACE_PAGE_H_
#define DPIPE_CORE_REPORT_PAGE_TRACE_PAGE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/timeline/timeline_svg.h"

namespace dpipe::report {

// Shows for each trace: step time, throughput, bubbles, memory; a zoomable timeline, with the same
// axis for all; and each device's time. The timelines of a comparison zoom and move together. The
// page follows the reader's light or dark setting and works on a phone. Errors as
// MakeTimelineParts.
absl::StatusOr<std::string> TracePage(const std::vector<TitledTrace>& traces,
                                      const TimelineOptions& options = {});

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_TRACE_PAGE_H_
