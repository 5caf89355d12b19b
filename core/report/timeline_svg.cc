#include "core/report/timeline_svg.h"

#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/palette.h"
#include "core/report/text_width.h"
#include "core/report/timeline_drawing.h"

namespace dpipe::report {
namespace {

absl::StatusOr<StepWindow> ChooseWindow(const TraceIndex& index, const StepWindow& wanted) {
  if (index.num_steps() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeline of ", index.plan().strategy(),
                                                   ": the trace holds no complete step"));
  }
  if (wanted.num_steps <= 0) return index.TypicalSteps(2);
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

// The legend in rows of `width`; `*height` is what it takes.
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

}  // namespace

absl::StatusOr<TimelineParts> MakeTimelineParts(const Trace& trace,
                                                const TimelineOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  DPIPE_ASSIGN_OR_RETURN(const StepWindow window, ChooseWindow(index, options.window));
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

absl::StatusOr<std::string> TimelineSvg(const Trace& trace, const std::string& title,
                                        const TimelineOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  DPIPE_ASSIGN_OR_RETURN(const StepWindow window, ChooseWindow(index, options.window));
  const TimelineDrawing drawing = DrawTimeline(index, window, options);
  constexpr int kMargin = 12, kTitle = 32;
  const int body_width = static_cast<int>(options.nominal_width_px);
  const int width = kMargin + kLabelWidthPx + body_width + kMargin;
  int legend_height = 0;
  const std::string legend = LegendSvg(drawing.legend, width - 2 * kMargin, &legend_height);
  const int height = kTitle + drawing.height_px + 10 + legend_height + kMargin;
  std::string svg = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"",
      width, "\" height=\"", height,
      "\" style=\"max-width:100%;height:auto\" role=\"img\">\n<title>", EscapeMarkup(title),
      "</title>\n<desc>", EscapeMarkup(drawing.description), "</desc>\n<style>\n", TimelineCss(),
      "</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
  absl::StrAppend(&svg, "<text class=\"lab\" style=\"font-size:15px\" x=\"", kMargin,
                  "\" y=\"21\">", EscapeMarkup(title), "</text>\n");
  absl::StrAppend(&svg, "<svg x=\"", kMargin, "\" y=\"", kTitle, "\" width=\"", kLabelWidthPx,
                  "\" height=\"", drawing.height_px, "\">\n", drawing.labels, "</svg>\n");
  absl::StrAppend(&svg, "<svg x=\"", kMargin + kLabelWidthPx, "\" y=\"", kTitle, "\" width=\"",
                  body_width, "\" height=\"", drawing.height_px, "\">\n", drawing.body, "</svg>\n");
  absl::StrAppend(&svg, "<g transform=\"translate(", kMargin, " ", kTitle + drawing.height_px + 10,
                  ")\">\n", legend, "</g>\n</svg>\n");
  return svg;
}

}  // namespace dpipe::report
