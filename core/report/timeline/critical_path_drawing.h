// The critical path of a step, outlined on its timeline.
#ifndef DPIPE_CORE_REPORT_TIMELINE_CRITICAL_PATH_DRAWING_H_
#define DPIPE_CORE_REPORT_TIMELINE_CRITICAL_PATH_DRAWING_H_

#include <string>

#include "core/report/timeline/timeline_layout.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// Draws an outline around each run of the path's events in one lane, and a line from the end of one
// run to the start of the next. Returns one group of class "crit"; empty if no part of the path is
// in view.
std::string DrawCriticalPath(const TraceIndex& index, const TimelineLayout& layout);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_CRITICAL_PATH_DRAWING_H_
