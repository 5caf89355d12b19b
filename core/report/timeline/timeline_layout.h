// Geometry of a timeline: times as percentages of its width, devices as lanes from top to bottom.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TIMELINE_LAYOUT_H_
#define DPIPE_CORE_REPORT_TIMELINE_TIMELINE_LAYOUT_H_

#include <algorithm>

#include "core/base/time.h"
#include "core/proto/trace.pb.h"

namespace dpipe::report {

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

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_TIMELINE_LAYOUT_H_
