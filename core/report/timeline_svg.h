// A picture of a few steps of a Trace: what each device computed when, and where it idled.
//
// One lane a device: forward and backward passes in their stage's hue with the micro-batch's
// number, frozen work in warm colours of its own, optimizer, and bubbles hatched. A thin lane below
// each holds messages; lines run from sender to receiver. Every box has a tooltip. Colours follow
// the reader's light or dark system setting. Positions along time are percentages, so that the
// picture can be any width; boxes in which their name would not fit have none. Below the lanes,
// what each device holds over time. The chain of events that sets the step time is outlined.
#ifndef DPIPE_CORE_REPORT_TIMELINE_SVG_H_
#define DPIPE_CORE_REPORT_TIMELINE_SVG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/trace.pb.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

struct TimelineOptions {
  // num_steps 0: two typical steady steps (fewer if the trace has fewer), or the one whose critical
  // path the trace has and the one before it.
  StepWindow window;
  // A step's usual time, as the results have it: steps near it are the typical ones. 0: the trace's
  // own median.
  Nanos typical_step_ns = 0;
  // Pixels of the time axis by which it is decided where a name fits.
  double nominal_width_px = 1080;
  int num_devices = 0;  // only the first so many; 0: all
  bool draw_messages = true;
  // Where the trace has them.
  bool draw_critical_path = true;
  bool draw_memory = true;
  std::vector<int64_t> memory_limit_bytes = {};  // by rank; 0 or missing: none is known
  // What the width stands for, where that is more than the window: pictures of several traces then
  // have one scale.
  Nanos axis_ns = 0;
  int64_t memory_axis_bytes = 0;  // the same of the memory curves' height
  // Begins the ids of the picture's elements; one page's pictures need different ones.
  std::string id_prefix = "timeline";
};

// The parts, for a page that lays them out itself.
struct TimelineParts {
  std::string labels;  // an <svg> of fixed width: the lanes' names
  std::string body;    // an <svg> of width 100%: the lanes
  std::string legend;  // HTML: <ul> of what the colours mean, only those in the picture
  int height_px = 0;   // of both <svg>s
};

// InvalidArgument if the trace does not fit its plan, holds no complete step, or not the window's
// steps.
absl::StatusOr<TimelineParts> MakeTimelineParts(const Trace& trace, const TimelineOptions& options);

// A stand-alone SVG file, with `title`, legend and style. Errors as above.
absl::StatusOr<std::string> TimelineSvg(const Trace& trace, const std::string& title,
                                        const TimelineOptions& options = {});

// The same of several traces, one under the other on one time axis.
absl::StatusOr<std::string> ComparisonSvg(const std::vector<TitledTrace>& traces,
                                          const TimelineOptions& options = {});

// How much time the window that a timeline of `trace` would show takes: the largest of several
// traces' is their common TimelineOptions.axis_ns. Errors as above.
absl::StatusOr<Nanos> WindowLength(const Trace& trace, const TimelineOptions& options);

// The most that any device ever holds: likewise for TimelineOptions.memory_axis_bytes.
int64_t LargestMemory(const Trace& trace);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_SVG_H_
