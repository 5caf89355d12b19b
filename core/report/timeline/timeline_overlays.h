// What a timeline shows beside its passes: the critical path and the memory in use.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TIMELINE_OVERLAYS_H_
#define DPIPE_CORE_REPORT_TIMELINE_TIMELINE_OVERLAYS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// Geometry of a timeline: times as percentages of its width, devices as lanes from top to bottom.
struct TimelineLayout {
  // From top to bottom: step names; per device its lane, a thin lane of messages and a gap; memory;
  // the time axis.
  static constexpr int kHeaderPx = 22, kMessagePx = 9, kGapPx = 19, kAxisPx = 22;
  // Minimum visible share of the width. Shorter bubbles are left out; shorter work is drawn this
  // wide.
  static constexpr double kMinPercent = 0.05;

  Nanos start_ns = 0;
  Nanos end_ns = 0;   // end of the drawn time
  Nanos axis_ns = 0;  // time that the full width represents; at least end - start
  int lane_px = 38;
  int num_ranks = 0;  // number of ranks drawn, from rank 0

  double Percent(Nanos time_ns) const {
    const Nanos clipped = std::clamp(time_ns, start_ns, end_ns);
    return 100.0 * static_cast<double>(clipped - start_ns) /
           static_cast<double>(std::max<Nanos>(1, axis_ns));
  }
  bool Shows(const TraceEvent& event) const {
    return event.rank() < num_ranks && event.end_ns() > start_ns && event.start_ns() < end_ns;
  }

  int LaneTop(int rank) const { return kHeaderPx + rank * (lane_px + kMessagePx + kGapPx); }
  // Return the position of a device's events of a stream. Sends are above, receives below;
  // collectives take the whole thin lane.
  int StreamTop(int rank, TraceEvent::Stream stream) const {
    if (stream == TraceEvent::COMPUTE) return LaneTop(rank);
    return LaneTop(rank) + lane_px + 1 + (stream == TraceEvent::RECV_STREAM ? 5 : 0);
  }
  int StreamHeight(TraceEvent::Stream stream) const {
    if (stream == TraceEvent::COMPUTE) return lane_px;
    return stream == TraceEvent::COLLECTIVE ? kMessagePx : 4;
  }
};

// Draws the critical path of a step: an outline around each run of the path's events in one lane,
// and a line from the end of one run to the start of the next. Returns one group of class "crit";
// empty if no part of the path is in view.
std::string DrawCriticalPath(const TraceIndex& index, const TimelineLayout& layout);

// Memory of each device over time, below the lanes of its timeline.
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

#endif  // DPIPE_CORE_REPORT_TIMELINE_TIMELINE_OVERLAYS_H_
