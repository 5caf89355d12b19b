#include "core/report/timeline/timeline_svg.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/palette.h"
#include "core/report/text_width.h"
#include "core/report/timeline/timeline_drawing.h"

namespace dpipe::report {
namespace {

constexpr int kMarginPx = 12;

absl::StatusOr<StepWindow> ChooseWindow(const TraceIndex& index, const TimelineOptions& options) {
  const StepWindow& wanted = options.window;
  if (index.num_steps() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeline of ", index.plan().strategy(),
                                                   ": the trace holds no complete step"));
  }
  if (wanted.num_steps <= 0) {
    if (index.critical_path().empty()) return index.TypicalSteps(2, options.typical_step_ns);
    const int step = index.critical_path().back().item.event->step();
    if (step < 0 || step >= index.num_steps())
      return index.TypicalSteps(2, options.typical_step_ns);
    return StepWindow{std::max(0, step - 1), std::min(2, step + 1)};
  }
  if (wanted.first_step < 0 || wanted.first_step + wanted.num_steps > index.num_steps()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeline of ", index.plan().strategy(), ": steps ", wanted.first_step, " to ",
                     wanted.first_step + wanted.num_steps - 1, " are not in the trace, which has ",
                     index.num_steps()));
  }
  return wanted;
}

std::string LegendHtml(const std::vector<LegendItem>& items) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendItem& item : items) {
    absl::StrAppend(&html, "<li><svg width=\"", 14 * item.swatches.size(),
                    "\" height=\"12\" aria-hidden=\"true\">");
    for (size_t i = 0; i < item.swatches.size(); ++i) {
      absl::StrAppend(&html, "<g transform=\"translate(", 14 * i, " 0)\">", item.swatches[i],
                      "</g>");
    }
    absl::StrAppend(&html, "</svg>", EscapeMarkup(item.text), "</li>");
  }
  return html + "</ul>\n";
}

// Draws the legend in rows of `width`; sets `*height`.
std::string LegendSvg(const std::vector<LegendItem>& items, int width, int* height) {
  constexpr int kRow = 20, kGap = 22;
  std::string svg;
  double x = 0;
  int y = 0;
  for (const LegendItem& item : items) {
    const double swatches = 14.0 * item.swatches.size();
    const double item_width = swatches + 4 + kCharacterPx * DisplayWidth(item.text);
    if (x > 0 && x + item_width > width) {
      x = 0;
      y += kRow;
    }
    absl::StrAppend(&svg, "<g transform=\"translate(", NumberText(x), " ", y, ")\">");
    for (size_t i = 0; i < item.swatches.size(); ++i) {
      absl::StrAppend(&svg, "<g transform=\"translate(", 14 * i, " 0)\">", item.swatches[i],
                      "</g>");
    }
    absl::StrAppend(&svg, "<text class=\"lab mut\" x=\"", NumberText(swatches + 4), "\" y=\"10\">",
                    EscapeMarkup(item.text), "</text></g>\n");
    x += item_width + kGap;
  }
  *height = y + kRow;
  return svg;
}

// Draws title, picture and legend from `*y` down, and advances `*y` past them.
std::string SectionSvg(const TimelineDrawing& drawing, const std::string& title, int width,
                       int* y) {
  constexpr int kTitlePx = 32;
  int legend_height = 0;
  const std::string legend = LegendSvg(drawing.legend, width - 2 * kMarginPx, &legend_height);
  const int top = *y + kTitlePx;
  std::string svg = absl::StrCat("<text class=\"lab\" style=\"font-size:15px\" x=\"", kMarginPx,
                                 "\" y=\"", *y + 21, "\">", EscapeMarkup(title), "</text>\n");
  absl::StrAppend(&svg, "<svg x=\"", kMarginPx, "\" y=\"", top, "\" width=\"", kLabelWidthPx,
                  "\" height=\"", drawing.height_px, "\">\n", drawing.labels, "</svg>\n");
  absl::StrAppend(&svg, "<svg x=\"", kMarginPx + kLabelWidthPx, "\" y=\"", top, "\" width=\"",
                  width - 2 * kMarginPx - kLabelWidthPx, "\" height=\"", drawing.height_px, "\">\n",
                  drawing.body, "</svg>\n");
  absl::StrAppend(&svg, "<g transform=\"translate(", kMarginPx, " ", top + drawing.height_px + 10,
                  ")\">\n", legend, "</g>\n");
  *y = top + drawing.height_px + 10 + legend_height + kMarginPx;
  return svg;
}

}  // namespace

absl::StatusOr<TimelineParts> MakeTimelineParts(const Trace& trace,
                                                const TimelineOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  DPIPE_ASSIGN_OR_RETURN(const StepWindow window, ChooseWindow(index, options));
  const TimelineDrawing drawing = DrawTimeline(index, window, options);
  TimelineParts parts;
  parts.height_px = drawing.height_px;
  const std::string height = absl::StrCat("height=\"", drawing.height_px, "\"");
  parts.labels = absl::StrCat("<svg class=\"labels\" width=\"", kLabelWidthPx, "\" ", height, ">\n",
                              drawing.labels, "</svg>\n");
  parts.body =
      absl::StrCat("<svg class=\"lanes\" width=\"100%\" ", height, " role=\"img\" aria-label=\"",
                   EscapeMarkup(drawing.description), "\">\n", drawing.body, "</svg>\n");
  parts.legend = LegendHtml(drawing.legend);
  return parts;
}

int64_t LargestMemory(const Trace& trace) {
  int64_t largest = 0;
  for (const MemorySample& sample : trace.memory()) largest = std::max(largest, sample.bytes());
  return largest;
}

absl::StatusOr<Nanos> WindowLength(const Trace& trace, const TimelineOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  DPIPE_ASSIGN_OR_RETURN(const StepWindow window, ChooseWindow(index, options));
  return index.StepEnd(window.first_step + window.num_steps - 1) -
         index.StepStart(window.first_step);
}

absl::StatusOr<std::string> TimelineSvg(const Trace& trace, const std::string& title,
                                        const TimelineOptions& options) {
  return ComparisonSvg({{title, &trace}}, options);
}

absl::StatusOr<std::string> ComparisonSvg(const std::vector<TitledTrace>& traces,
                                          const TimelineOptions& options) {
  TimelineOptions own = options;
  for (const TitledTrace& trace : traces) {
    DPIPE_ASSIGN_OR_RETURN(const Nanos length, WindowLength(*trace.trace, options));
    own.axis_ns = std::max(own.axis_ns, length);
    own.memory_axis_bytes = std::max(own.memory_axis_bytes, LargestMemory(*trace.trace));
  }
  const int width = 2 * kMarginPx + kLabelWidthPx + static_cast<int>(options.nominal_width_px);
  std::string sections, titles, descriptions;
  int y = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces.size() > 1) own.id_prefix = absl::StrCat(options.id_prefix, i);
    DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(*traces[i].trace));
    DPIPE_ASSIGN_OR_RETURN(const StepWindow window, ChooseWindow(index, own));
    const TimelineDrawing drawing = DrawTimeline(index, window, own);
    absl::StrAppend(&sections, SectionSvg(drawing, traces[i].title, width, &y));
    absl::StrAppend(&titles, i > 0 ? "; " : "", traces[i].title);
    absl::StrAppend(&descriptions, i > 0 ? "; " : "", drawing.description);
  }
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", y, "\" width=\"",
      width, "\" height=\"", y, "\" style=\"max-width:100%;height:auto\" role=\"img\">\n<title>",
      EscapeMarkup(titles), "</title>\n<desc>", EscapeMarkup(descriptions), "</desc>\n<style>\n",
      TimelineCss(), "</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n", sections,
      "</svg>\n");
}

}  // namespace dpipe::report
