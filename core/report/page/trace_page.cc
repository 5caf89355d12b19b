#include "core/report/page/trace_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes.h"
#include "core/report/markup.h"
#include "core/report/page/html_assets.h"
#include "core/report/page/html_charts.h"
#include "core/report/page/html_timeline.h"
#include "core/report/palette.h"
#include "core/report/timeline/bubbles.h"

namespace dpipe::report {
namespace {

double SteadyStepNs(const TraceIndex& index) {
  const StepWindow steady = index.SteadySteps();
  if (steady.num_steps == 0) return 0;
  return static_cast<double>(index.StepEnd(steady.first_step + steady.num_steps - 1) -
                             index.StepStart(steady.first_step)) /
         steady.num_steps;
}

// `reference_ns` is the first trace's step time; 0 for the first trace itself.
std::string Tiles(const TraceIndex& index, double reference_ns) {
  const double step_ns = SteadyStepNs(index);
  if (step_ns <= 0) return "";
  std::string html = "<div class=\"tiles\">\n";
  html += TileHtml(ShortDuration(step_ns), "per step");
  html += TileHtml(absl::StrFormat("%.1f", index.plan().global_batch() * 1e9 / step_ns),
                   "samples per second");
  if (reference_ns > 0) {
    html += TileHtml(absl::StrFormat("%.2f×", reference_ns / step_ns), "as fast as the first");
  }
  html += TileHtml(PercentText(BubbleRatio(DeviceTimes(index, index.SteadySteps()))),
                   "of device time idle (bubble ratio)");
  const auto& peaks = index.trace().peak_memory_bytes();
  if (!peaks.empty()) {
    html += TileHtml(FormatBytes(*std::max_element(peaks.begin(), peaks.end())),
                     "memory of the fullest device");
  }
  return html + "</div>\n";
}

std::string FactsText(const Trace& trace) {
  const Plan& plan = trace.plan();
  return absl::StrCat(plan.stages_size(), plan.stages_size() == 1 ? " stage · " : " stages · ",
                      plan.num_micro_batches(),
                      plan.num_micro_batches() == 1 ? " micro-batch of " : " micro-batches of ",
                      plan.micro_batch_size(), " · ", plan.devices_size(), " devices · ",
                      SourceName(trace));
}

}  // namespace

absl::StatusOr<std::string> TracePage(const std::vector<TitledTrace>& traces,
                                      const TimelineOptions& options) {
  TimelineOptions own = options;
  std::string titles;
  for (const TitledTrace& trace : traces) {
    DPIPE_ASSIGN_OR_RETURN(const Nanos length, WindowLength(*trace.trace, options));
    own.axis_ns = std::max(own.axis_ns, length);
    own.memory_axis_bytes = std::max(own.memory_axis_bytes, LargestMemory(*trace.trace));
    absl::StrAppend(&titles, titles.empty() ? "" : " · ", trace.title);
  }
  std::string sections;
  double reference_ns = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    const Trace& trace = *traces[i].trace;
    own.id_prefix = absl::StrCat(options.id_prefix, i);
    DPIPE_ASSIGN_OR_RETURN(const TimelineParts parts, MakeTimelineParts(trace, own));
    DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
    absl::StrAppend(&sections, "<section><div class=\"head-line\"><h2>",
                    EscapeMarkup(traces[i].title), "</h2><span class=\"facts\">",
                    EscapeMarkup(FactsText(trace)), "</span></div>\n", Tiles(index, reference_ns),
                    FigureHtml(parts, parts.legend), "<details><summary>time per device</summary>",
                    DeviceTimesHtml(index, absl::StrCat("d", i)), "</details></section>\n");
    if (i == 0) reference_ns = SteadyStepNs(index);
  }
  const std::string title = EscapeMarkup(titles);
  const std::string heading =
      traces.size() == 1 ? title : absl::StrCat(traces.size(), " runs on one time axis");
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", ChartCss(), kReportCss, TimelineCss(),
      "</style>\n</head>\n<body>\n<main", traces.size() > 1 ? " class=\"compare\"" : "", ">\n<h1>",
      heading, "</h1>\n", sections, kHowToReadTimelines, "</main>\n<script>", kReportScript,
      "</script>\n</body>\n</html>\n");
}

}  // namespace dpipe::report
