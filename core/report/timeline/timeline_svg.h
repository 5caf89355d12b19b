// A picture of a few steps of a Trace: the work of each device over time, and its idle time.
//
// Each device has a lane with forward and backward passes (in their stage's hue, with the
// micro-batch's number), frozen work (in warm colours), the optimizer, and hatched bubbles. A thin
// lane below it shows messages; lines run from sender to receiver. Below all lanes is each device's
// memory over time. The critical path is outlined.
//
// Every box has a tooltip; a box too narrow for its name has none inside. Colours follow the
// reader's light or dark system setting. Positions along time are percentages, so the picture can
// have any width.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TIMELINE_SVG_H_
#define DPIPE_CORE_REPORT_TIMELINE_TIMELINE_SVG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

struct TimelineOptions {
  // If num_steps is 0: two typical steady steps (fewer if the trace has fewer), or, if the trace
  // has a critical path, its step and the one before.
  StepWindow window;
  // The usual step time according to the results; steps near it count as typical. 0: the trace's
  // own median.
  Nanos typical_step_ns = 0;
  // Width of the time axis in pixels that decides if a name fits.
  double nominal_width_px = 1080;
  int num_devices = 0;  // number of devices drawn, from the first; 0: all
  bool draw_messages = true;
  // Drawn only if the trace has them.
  bool draw_critical_path = true;
  bool draw_memory = true;
  std::vector<int64_t> memory_limit_bytes = {};  // by rank; 0 or missing: unknown
  // Time that the width represents, if longer than the window; gives pictures of several traces the
  // same scale.
  Nanos axis_ns = 0;
  int64_t memory_axis_bytes = 0;  // the same for the height of the memory curves
  // Prefix of the ids of the picture's elements; must be unique within a page.
  std::string id_prefix = "timeline";
};

// The parts of a picture, for pages with their own layout.
struct TimelineParts {
  std::string labels;  // an <svg> of fixed width: the lanes' names
  std::string body;    // an <svg> of width 100%: the lanes
  std::string legend;  // HTML <ul> that explains the colours in the picture
  int height_px = 0;   // of both <svg>s
};

// Returns InvalidArgument if the trace does not fit its plan, has no complete step, or lacks the
// window's steps.
absl::StatusOr<TimelineParts> MakeTimelineParts(const Trace& trace, const TimelineOptions& options);

// Returns a stand-alone SVG file with `title`, legend and style. Errors as above.
absl::StatusOr<std::string> TimelineSvg(const Trace& trace, const std::string& title,
                                        const TimelineOptions& options = {});

// Returns the same for several traces, one below the other on a common time axis.
absl::StatusOr<std::string> ComparisonSvg(const std::vector<TitledTrace>& traces,
                                          const TimelineOptions& options = {});

// Returns the length of the window that a timeline of `trace` would show. The maximum over several
// traces is their common TimelineOptions.axis_ns. Errors as above.
absl::StatusOr<Nanos> WindowLength(const Trace& trace, const TimelineOptions& options);

// Returns the maximum memory of any device, for TimelineOptions.memory_axis_bytes.
int64_t LargestMemory(const Trace& trace);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_TIMELINE_SVG_H_
