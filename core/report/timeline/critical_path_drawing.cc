#include "core/report/timeline/critical_path_drawing.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/report/markup.h"

namespace dpipe::report {

namespace {

// Consecutive events in one lane. They get a common outline, since narrow ones would be all
// outline.
struct Run {
  int rank = 0;
  TraceEvent::Stream stream = TraceEvent::COMPUTE;
  Nanos start_ns = 0, end_ns = 0;
  bool follows = false;  // the run waited for the run before it
};

std::vector<Run> RunsInView(const TraceIndex& index, const TimelineLayout& layout) {
  std::vector<Run> runs;
  bool follows = false;
  for (const TraceIndex::CriticalEvent& link : index.critical_path()) {
    const TraceEvent& event = *link.item.event;
    if (!layout.Shows(event)) {
      follows = false;
      continue;
    }
    if (follows && runs.back().rank == event.rank() && runs.back().stream == event.stream() &&
        runs.back().end_ns == event.start_ns()) {
      runs.back().end_ns = event.end_ns();
    } else {
      runs.push_back({event.rank(), event.stream(), event.start_ns(), event.end_ns(), follows});
    }
    follows = true;
  }
  return runs;
}

}  // namespace

std::string DrawCriticalPath(const TraceIndex& index, const TimelineLayout& layout) {
  std::string lines, boxes;
  const std::vector<Run> runs = RunsInView(index, layout);
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const int top = layout.StreamTop(run.rank, run.stream);
    const int height = layout.StreamHeight(run.stream);
    const double x = layout.Percent(run.start_ns);
    const double width = std::max(layout.Percent(run.end_ns) - x, TimelineLayout::kMinPercent);
    absl::StrAppend(&boxes, "<rect x=\"", NumberText(x), "%\" y=\"", top, "\" width=\"",
                    NumberText(width), "%\" height=\"", height, "\"/>");
    if (!run.follows) continue;
    const Run& before = runs[i - 1];
    const int from =
        layout.StreamTop(before.rank, before.stream) + layout.StreamHeight(before.stream) / 2;
    absl::StrAppend(&lines, "<line x1=\"", NumberText(layout.Percent(before.end_ns)), "%\" y1=\"",
                    from, "\" x2=\"", NumberText(x), "%\" y2=\"", top + height / 2, "\"/>");
  }
  if (boxes.empty()) return "";
  return absl::StrCat("<g class=\"crit\">", lines, boxes, "</g>\n");
}

}  // namespace dpipe::report
