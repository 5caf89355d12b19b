// Memory of each device over time, below the lanes of its timeline.
#ifndef DPIPE_CORE_REPORT_TIMELINE_MEMORY_CHART_H_
#define DPIPE_CORE_REPORT_TIMELINE_MEMORY_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/timeline/timeline_layout.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

struct MemoryChart {
  std::string labels;  // elements beside the charts
  std::string body;    // elements; positions along time are percentages
  int height_px = 0;   // 0: the trace has no memory over time
};

// Draws one step curve per device from `top_px` down. All have the same scale, which is at least
// `at_least_bytes`. `limits` is by rank, 0 or missing for none. A limit is always named, but drawn
// only if the curves stay readable.
MemoryChart DrawMemory(const TraceIndex& index, const TimelineLayout& layout,
                       const std::vector<int64_t>& limits, int64_t at_least_bytes, int top_px);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_MEMORY_CHART_H_
