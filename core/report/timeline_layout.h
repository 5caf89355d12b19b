// Where things are on a timeline: times as percentages of its width, devices as lanes from top to
// bottom.
#ifndef DPIPE_CORE_REPORT_TIMELINE_LAYOUT_H_
#define DPIPE_CORE_REPORT_TIMELINE_LAYOUT_H_

#include <algorithm>

#include "core/base/time.h"
#include "core/proto/trace.pb.h"

namespace dpipe::report {

struct TimelineLayout {
  // From top to bottom: names of steps; per device its lane, a thin lane of messages, a gap;
  // memory; the time axis.
  static constexpr int kHeaderPx = 22, kMessagePx = 9, kGapPx = 19, kAxisPx = 22;
  // Of the width: what is shorter is not visible and is left out (bubbles), or drawn as wide as
  // that (work).
  static constexpr double kMinPercent = 0.05;

  Nanos start_ns = 0;
  Nanos end_ns = 0;   // of what is drawn
  Nanos axis_ns = 0;  // what the whole width stands for; at least end - start
  int lane_px = 38;
  int num_ranks = 0;  // the first so many are drawn

  double Percent(Nanos time_ns) const {
    const Nanos clipped = std::clamp(time_ns, start_ns, end_ns);
    return 100.0 * static_cast<double>(clipped - start_ns) /
           static_cast<double>(std::max<Nanos>(1, axis_ns));
  }
  bool Shows(const TraceEvent& event) const {
    return event.rank() < num_ranks && event.end_ns() > start_ns && event.start_ns() < end_ns;
  }

  int LaneTop(int rank) const { return kHeaderPx + rank * (lane_px + kMessagePx + kGapPx); }
  // Where a device's events of a stream are: sends above, receives below; collectives take the
  // whole thin lane.
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

#endif  // DPIPE_CORE_REPORT_TIMELINE_LAYOUT_H_
