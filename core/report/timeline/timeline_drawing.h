// The lanes of a timeline as SVG elements; timeline_svg.h adds the frame.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TIMELINE_DRAWING_H_
#define DPIPE_CORE_REPORT_TIMELINE_TIMELINE_DRAWING_H_

#include <string>
#include <vector>

#include "core/report/timeline/timeline_style.h"
#include "core/report/timeline/timeline_svg.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

inline constexpr int kLabelWidthPx = 84;
// Average width of a character of 11 px text, slightly overestimated.
inline constexpr double kCharacterPx = 6.4;

struct TimelineDrawing {
  std::string labels;  // elements in a box of kLabelWidthPx
  std::string body;    // elements whose positions along time are percentages
  std::vector<LegendItem> legend;
  std::string description;  // one sentence, for readers who cannot see the picture
  int height_px = 0;
};

// Draws the steps of `window`, which must be within the trace.
TimelineDrawing DrawTimeline(const TraceIndex& index, StepWindow window,
                             const TimelineOptions& options);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_TIMELINE_DRAWING_H_
