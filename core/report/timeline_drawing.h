// The lanes of a timeline as SVG elements; timeline_svg.h frames them.
#ifndef DPIPE_CORE_REPORT_TIMELINE_DRAWING_H_
#define DPIPE_CORE_REPORT_TIMELINE_DRAWING_H_

#include <string>
#include <vector>

#include "core/report/timeline_style.h"
#include "core/report/timeline_svg.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

inline constexpr int kLabelWidthPx = 84;
// Of a character of 11 px text, on average and a little generous.
inline constexpr double kCharacterPx = 6.4;

struct TimelineDrawing {
  std::string labels;  // elements in a box of kLabelWidthPx
  std::string body;    // elements whose positions along time are percentages
  std::vector<LegendItem> legend;
  std::string description;  // one sentence, for those who cannot see it
  int height_px = 0;
};

// `window` lies within the trace.
TimelineDrawing DrawTimeline(const TraceIndex& index, StepWindow window,
                             const TimelineOptions& options);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_DRAWING_H_
