#include "core/report/timeline/timeline_overlays.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
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

namespace {

constexpr int kTitlePx = 20, kMaxTallDevices = 8;
// A limit above this multiple of the largest peak would flatten the curves.
constexpr double kFarLimit = 1.8;
// Resolution of a curve; the largest sample of a column is drawn.
constexpr int kColumns = 4000, kRows = 1000;

struct Point {
  int column = 0;
  int64_t bytes = 0;
};

// Returns a device's memory within the layout's time, by column.
std::vector<Point> PointsOf(const Trace& trace, const TimelineLayout& layout, int rank) {
  std::vector<Point> points;
  for (const MemorySample& sample : trace.memory()) {
    if (sample.rank() != rank || sample.time_ns() >= layout.end_ns) continue;
    const Point point{static_cast<int>(layout.Percent(sample.time_ns()) / 100 * kColumns),
                      sample.bytes()};
    const bool before = sample.time_ns() <= layout.start_ns;
    if (!points.empty() && (before || points.back().column == point.column)) {
      points.back().bytes = before ? point.bytes : std::max(points.back().bytes, point.bytes);
    } else {
      points.push_back(point);
    }
  }
  return points;
}

int64_t PeakOf(const std::vector<Point>& points) {
  int64_t peak = 0;
  for (const Point& point : points) peak = std::max(peak, point.bytes);
  return peak;
}

std::string CurvePath(const std::vector<Point>& points, int end_column, double full_bytes) {
  std::string path;
  for (const Point& point : points) {
    const int y = kRows - static_cast<int>(static_cast<double>(point.bytes) / full_bytes * kRows);
    absl::StrAppend(&path,
                    path.empty() ? absl::StrCat("M", point.column, " ", kRows)
                                 : absl::StrCat("H", point.column),
                    "V", y);
  }
  return absl::StrCat(path, "H", end_column, "V", kRows, "Z");
}

}  // namespace

MemoryChart DrawMemory(const TraceIndex& index, const TimelineLayout& layout,
                       const std::vector<int64_t>& limits, int64_t at_least_bytes, int top_px) {
  MemoryChart chart;
  if (index.trace().memory().empty()) return chart;
  const int num_devices = layout.num_ranks;
  const bool tall = num_devices <= kMaxTallDevices;
  const int row_px = tall ? 40 : 20, curve_px = tall ? 34 : 16;
  std::vector<std::vector<Point>> points;
  int64_t peak = std::max<int64_t>(1, at_least_bytes), limit = 0;
  for (int rank = 0; rank < num_devices; ++rank) {
    points.push_back(PointsOf(index.trace(), layout, rank));
    peak = std::max(peak, PeakOf(points.back()));
    if (rank < static_cast<int>(limits.size())) limit = std::max(limit, limits[rank]);
  }
  const bool near = limit > 0 && static_cast<double>(limit) < kFarLimit * static_cast<double>(peak);
  const double full_bytes = 1.04 * static_cast<double>(near ? std::max(limit, peak) : peak);
  // Between instructions an executed run holds less than its peak.
  const bool is_executed = index.trace().source() == Trace::EXECUTED;
  const auto& peaks = index.trace().peak_memory_bytes();
  std::string title = is_executed ? "memory after instructions" : "memory, in one scale";
  if (limit > 0)
    absl::StrAppend(&title, "; ", near ? "dashed: the" : "", " limit ", FormatBytes(limit));
  absl::StrAppend(&chart.body, "<text class=\"mut\" x=\"0\" dx=\"6\" y=\"", top_px + 12, "\">",
                  EscapeMarkup(title), "</text>\n");
  const int end_column = static_cast<int>(layout.Percent(layout.end_ns) / 100 * kColumns);
  for (int rank = 0; rank < num_devices; ++rank) {
    const int y = top_px + kTitlePx + rank * row_px;
    const std::string text =
        FormatBytes(is_executed && rank < peaks.size() ? peaks[rank] : PeakOf(points[rank]));
    if (tall) {
      absl::StrAppend(&chart.labels, "<text class=\"lab\" x=\"0\" y=\"", y + 14, "\">device ", rank,
                      "</text><text class=\"mut\" x=\"0\" y=\"", y + 28, "\">", text, "</text>\n");
    } else {
      absl::StrAppend(&chart.labels, "<text class=\"mut\" x=\"0\" y=\"", y + 12, "\">", rank, ": ",
                      text, "</text>\n");
    }
    if (points[rank].empty()) continue;
    const int64_t own = rank < static_cast<int>(limits.size()) ? limits[rank] : 0;
    absl::StrAppend(&chart.body, "<svg x=\"0\" y=\"", y, "\" width=\"100%\" height=\"", curve_px,
                    "\" viewBox=\"0 0 ", kColumns, " ", kRows,
                    "\" preserveAspectRatio=\"none\"><g class=\"e\"><title>device ", rank,
                    ": at most ", text, own > 0 ? absl::StrCat(" of ", FormatBytes(own)) : "",
                    "</title><path class=\"mem\" d=\"",
                    CurvePath(points[rank], end_column, full_bytes), "\"/></g></svg>");
    if (near && own > 0) {
      const std::string at = NumberText(y + curve_px * (1 - static_cast<double>(own) / full_bytes));
      absl::StrAppend(&chart.body, "<line class=\"cap\" x1=\"0\" x2=\"",
                      NumberText(layout.Percent(layout.end_ns)), "%\" y1=\"", at, "\" y2=\"", at,
                      "\"/>");
    }
    chart.body += "\n";
  }
  chart.height_px = kTitlePx + num_devices * row_px;
  return chart;
}

}  // namespace dpipe::report
