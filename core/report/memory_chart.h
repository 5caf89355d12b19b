// What each device holds over time, under the lanes of its timeline.
#ifndef DPIPE_CORE_REPORT_MEMORY_CHART_H_
#define DPIPE_CORE_REPORT_MEMORY_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/timeline_layout.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

struct MemoryChart {
  std::string labels;  // elements beside the charts
  std::string body;    // elements; positions along time are percentages
  int height_px = 0;   // 0: the trace has no memory over time
};

// One step curve a device, all of one scale that `at_least_bytes` fit into, from `top_px` down.
// `limits` by rank; a limit is drawn where that leaves the curves readable, and named always. 0 or
// missing: none.
MemoryChart DrawMemory(const TraceIndex& index, const TimelineLayout& layout,
                       const std::vector<int64_t>& limits, int64_t at_least_bytes, int top_px);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_MEMORY_CHART_H_
