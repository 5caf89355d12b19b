// A self-contained page (no network, no external file) of one trace, or of several to compare.
#ifndef DPIPE_CORE_REPORT_TRACE_PAGE_H_
#define DPIPE_CORE_REPORT_TRACE_PAGE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/timeline_svg.h"

namespace dpipe::report {

// For each: step time, throughput, bubbles, memory; its timeline, zoomable, on an axis common to
// all; where each device's time goes. Timelines of a comparison zoom and move together. Light and
// dark after the reader's system, usable on a phone. Errors as MakeTimelineParts.
absl::StatusOr<std::string> TracePage(const std::vector<TitledTrace>& traces,
                                      const TimelineOptions& options = {});

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TRACE_PAGE_H_
