#include "core/report/page/trace_page.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes.h"
#include "core/report/markup.h"
#include "core/report/page/html_assets.h"
#include "core/report/page/html_charts.h"
#include "core/report/page/html_timeline.h"
#include "core/report/palette.h"
#include "core/report/results/case_analysis.h"
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

// Returns how many times as fast as `first` a trace is. Executed steps vary, so their ratio has an
// interval.
Interval Speedup(const TraceIndex& first, const TraceIndex& index) {
  const auto steps = [](const TraceIndex& of) {
    std::vector<double> ns;
    const StepWindow steady = of.SteadySteps();
    for (int i = 0; i < steady.num_steps; ++i) {
      const int step = steady.first_step + i;
      ns.push_back(static_cast<double>(std::max<Nanos>(1, of.StepEnd(step) - of.StepStart(step))));
    }
    return ns;
  };
  const double ratio = SteadyStepNs(first) / SteadyStepNs(index);
  const bool varies =
      first.trace().source() == Trace::EXECUTED || index.trace().source() == Trace::EXECUTED;
  return varies ? RatioInterval(steps(first), steps(index)) : Interval{ratio, ratio, ratio};
}

// `first` is null for the first trace itself.
std::string Tiles(const TraceIndex& index, const TraceIndex* first) {
  const double step_ns = SteadyStepNs(index);
  if (step_ns <= 0) return "";
  std::string html = "<div class=\"tiles\">\n";
  html += TileHtml(ShortDuration(step_ns), "per step");
  html += TileHtml(absl::StrFormat("%.1f", index.plan().global_batch() * 1e9 / step_ns),
                   "samples per second");
  if (first != nullptr && SteadyStepNs(*first) > 0) {
    const Interval ratio = Speedup(*first, index);
    html += TileHtml(RatioText(ratio) + "×",
                     ratio.low == ratio.high ? "as fast as the first"
                                             : absl::StrFormat("as fast as the first, %.2f to %.2f",
                                                               ratio.low, ratio.high));
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
    DPIPE_RETURN_IF_ERROR(WidenAxes(*trace.trace, &own));
    absl::StrAppend(&titles, titles.empty() ? "" : " · ", trace.title);
  }
  std::string sections;
  std::optional<TraceIndex> first;
  for (size_t i = 0; i < traces.size(); ++i) {
    const Trace& trace = *traces[i].trace;
    own.id_prefix = absl::StrCat(options.id_prefix, i);
    DPIPE_ASSIGN_OR_RETURN(const TimelineParts parts, MakeTimelineParts(trace, own));
    DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
    if (i == 0) first = index;
    absl::StrAppend(&sections, "<section><div class=\"head-line\"><h2>",
                    EscapeMarkup(traces[i].title), "</h2><span class=\"facts\">",
                    EscapeMarkup(FactsText(trace)), "</span></div>\n",
                    Tiles(index, i == 0 ? nullptr : &*first), FigureHtml(parts, parts.legend),
                    "<details><summary>time per device</summary>",
                    DeviceTimesHtml(index, absl::StrCat("d", i)), "</details></section>\n");
  }
  const std::string title = EscapeMarkup(titles);
  const std::string heading =
      traces.size() == 1 ? title : absl::StrCat(traces.size(), " runs on one time axis");
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", ChartCss(), kReportCss, TimelineCss(),
      "</style>\n</head>\n<body>\n<main", traces.size() > 1 ? " class=\"compare\"" : "", ">\n<h1>",
      heading, "</h1>\n", kHowToReadTimelines, sections, "</main>\n<script>", kReportScript,
      "</script>\n</body>\n</html>\n");
}

}  // namespace dpipe::report
