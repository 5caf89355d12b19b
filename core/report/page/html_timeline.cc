#include "core/report/page/html_timeline.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/page/html_charts.h"
#include "core/report/results/results.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/instruction_times.h"
#include "core/report/timeline/timeline_style.h"
#include "core/report/timeline/timeline_svg.h"

namespace dpipe::report {

namespace {

// Returns the hue of each device's first stage; 0 if it has none.
std::vector<int> HuesOfDevices(const Plan& plan, size_t num_devices) {
  const TimelineStyle style(plan);
  std::vector<int> hues(num_devices, 0);
  for (int i = plan.stages_size() - 1; i >= 0; --i) {
    for (const int rank : plan.stages(i).ranks()) {
      if (rank < 0 || rank >= static_cast<int>(num_devices)) continue;
      hues[rank] = style.HueOf(plan.stages(i).id());
    }
  }
  return hues;
}

// Returns a table of every device's idle time by reason, as shares of a step.
std::string IdleTable(const std::vector<DeviceTime>& devices) {
  constexpr BubbleReason kReasons[] = {WARM_UP, STEADY, COOL_DOWN, GRADIENT_SYNC, OPTIMIZER};
  std::string html = "<div class=\"wide\"><table><tr><th>device</th><th class=\"n\">idle</th>";
  for (const BubbleReason reason : kReasons) {
    absl::StrAppend(&html, "<th class=\"n\">", BubbleReasonName(reason), "</th>");
  }
  html += "</tr>\n";
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const DeviceTime& device = devices[rank];
    absl::StrAppend(&html, "<tr><td>", rank, "</td><td class=\"n\">",
                    PercentText(device.IdleNs() / device.step_ns), "</td>");
    for (const BubbleReason reason : kReasons) {
      absl::StrAppend(&html, "<td class=\"n\">",
                      PercentText(device.idle_ns[reason] / device.step_ns), "</td>");
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

const char kHowToReadTimelines[] =
    R"html(<section><h2>How to read the timelines</h2>
<dl><dt>lanes</dt><dd>One per device; time runs to the right. Two steps are shown, one after the other, from the
middle of the run. Numbers in boxes are micro-batches: F forward, B backward, I and W its two halves (input and weight
gradients), R recomputation; s2 is stage 2, if a device has several stages.</dd>
<dt>cool colours</dt><dd>The model being trained. A hue is a stage; pale is forward, strong is backward. A band at the
foot of a box: the second of two pipelines that run in opposite directions.</dd>
<dt>warm colours</dt><dd>Frozen components (text encoder, VAE). They only run forward, and depend on nothing that is
trained: diffusionpipe computes those of the <em>next</em> step in this step&#39;s bubbles.</dd>
<dt>hatched</dt><dd>Bubbles: the device computes nothing. Less is better.</dd>
<dt>thin lanes, arrows</dt><dd>Messages, sent (above) and received (below); arrows lead from sender to receiver.</dd>
<dt>red outlines</dt><dd>The critical path of a simulated step: the chain of work and messages that sets how long it
takes. Only shortening one of these shortens the step.</dd>
<dt>curves</dt><dd>Memory that each device holds, in a simulated run.</dd>
<dt>more</dt><dd>Hover over or tap a box for details. Zoom with + and − or with Ctrl and the wheel; drag to move. The
trace files open in <code>ui.perfetto.dev</code> and contain all events.</dd></dl></section>
)html";

std::string FigureHtml(const TimelineParts& parts, const std::string& legend) {
  const bool has_path = absl::StrContains(parts.body, "class=\"crit\"");
  return absl::StrCat(
      "<div class=\"figure\"><div class=\"figure-head\">", legend, "<div class=\"tools\">",
      has_path ? "<button data-do=\"path\" aria-pressed=\"true\" title=\"show or hide the critical "
                 "path\">path</button>"
               : "",
      "<button data-do=\"out\" title=\"zoom out\">−</button>"
      "<button data-do=\"all\" title=\"show all\">all</button>"
      "<button data-do=\"in\" title=\"zoom in (or Ctrl and wheel)\">+</button></div></div>\n"
      "<div class=\"tl\">",
      parts.labels, "<div class=\"scroll\">", parts.body,
      "</div></div>\n<output class=\"info\"></output></div>\n");
}

std::string DeviceTimesHtml(const TraceIndex& index, const std::string& id_prefix) {
  const std::vector<DeviceTime> devices = DeviceTimes(index, index.SteadySteps());
  return absl::StrCat(
      DeviceTimeChart(devices, HuesOfDevices(index.plan(), devices.size()), id_prefix),
      IdleTable(devices));
}

std::string TileHtml(const std::string& value, const std::string& meaning) {
  return absl::StrCat("<div class=\"tile\"><b>", EscapeMarkup(value), "</b><span>",
                      EscapeMarkup(meaning), "</span></div>\n");
}

const char* SourceName(const Trace& trace) {
  switch (trace.source()) {
    case Trace::EXECUTED:
      return "executed";
    case Trace::EMULATED:
      return "emulated";
    default:
      return "simulated";
  }
}

namespace {

std::string FactsText(const Trace& trace, const StrategyResult* result) {
  const Plan& plan = trace.plan();
  std::vector<std::string> facts;
  facts.push_back(
      absl::StrCat(plan.stages_size(), plan.stages_size() == 1 ? " stage, " : " stages, ",
                   plan.num_micro_batches(),
                   plan.num_micro_batches() == 1 ? " micro-batch of " : " micro-batches of ",
                   plan.micro_batch_size()));
  if (result != nullptr && !result->images_per_second().empty()) {
    facts.push_back(absl::StrFormat("%.1f img/s", MedianImagesPerSecond(*result)));
  }
  if (result != nullptr && !std::isnan(result->bubble_ratio_measured())) {
    facts.push_back("bubble ratio " + PercentText(result->bubble_ratio_measured()));
  }
  return absl::StrJoin(facts, " · ");
}

// Lists the largest differences, and all waiting.
std::string InstructionTimesHtml(const StrategyResult& result) {
  constexpr int kRows = 8;
  std::string html =
      "<details><summary>deviations from the prediction</summary>"
      "<div class=\"wide\"><table><tr><th>work</th><th class=\"n\">device</th>"
      "<th class=\"n\">per step</th><th class=\"n\">ms per step</th><th class=\"n\">predicted</th>"
      "<th class=\"n\">difference</th></tr>\n";
  int rows = 0;
  for (const InstructionTimes& one : result.instruction_times()) {
    const bool waits = one.per_step() == 0;
    if (!waits && ++rows > kRows) continue;
    absl::StrAppend(&html, "<tr><td>", EscapeMarkup(one.work()), "</td><td class=\"n\">",
                    one.device(), "</td><td class=\"n\">",
                    waits ? "" : absl::StrCat(one.per_step()),
                    absl::StrFormat("</td><td class=\"n\">%.2f</td><td class=\"n\">%.2f</td>"
                                    "<td class=\"n\">%+.2f</td></tr>\n",
                                    one.measured_ms(), one.predicted_ms(), DifferenceMs(one)));
  }
  return html + "</table></div></details>\n";
}

}  // namespace

absl::StatusOr<std::string> StrategyHtml(const StrategyTraces& traces, const StrategyResult* result,
                                         const std::string& id_prefix) {
  const Trace* main = traces.measured != nullptr ? traces.measured : traces.predicted;
  if (main == nullptr) return std::string();
  TimelineOptions options;
  options.id_prefix = id_prefix + "m";
  const bool has_steps = result != nullptr && !result->step_ms().empty();
  if (main == traces.measured && has_steps) {
    options.typical_step_ns = static_cast<Nanos>(MedianStepMs(*result) * kNanosPerMilli);
  }
  DPIPE_ASSIGN_OR_RETURN(const TimelineParts parts, MakeTimelineParts(*main, options));
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(*main));
  std::string html = absl::StrCat("<div class=\"strategy\"><div class=\"head-line\"><h3>",
                                  EscapeMarkup(traces.strategy), "</h3><span class=\"facts\">",
                                  EscapeMarkup(FactsText(*main, result)), " · ", SourceName(*main),
                                  "</span></div>\n", FigureHtml(parts, parts.legend));
  if (result != nullptr && !result->plan().description().empty()) {
    absl::StrAppend(&html, "<p class=\"note\">", EscapeMarkup(result->plan().description()),
                    "</p>\n");
  }
  if (main == traces.measured && traces.predicted != nullptr) {
    options.id_prefix = id_prefix + "p";
    options.typical_step_ns = 0;
    DPIPE_ASSIGN_OR_RETURN(const TimelineParts predicted,
                           MakeTimelineParts(*traces.predicted, options));
    absl::StrAppend(&html, "<details><summary>the same steps as predicted</summary>",
                    FigureHtml(predicted, ""), "</details>\n");
  }
  if (result != nullptr && !result->instruction_times().empty()) {
    html += InstructionTimesHtml(*result);
  }
  absl::StrAppend(&html, "<details><summary>time per device</summary>",
                  DeviceTimesHtml(index, id_prefix + "d"), "</details></div>\n");
  return html;
}

}  // namespace dpipe::report
