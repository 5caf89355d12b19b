#include "core/report/page/html_timeline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/page/html_charts.h"
#include "core/report/table.h"
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
  std::vector<std::string> headers = {"device", "idle"};
  for (const BubbleReason reason : kReasons) headers.push_back(BubbleReasonName(reason));
  Table table(headers);
  table.SetAlign(0, Table::Align::kLeft);
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const DeviceTime& device = devices[rank];
    std::vector<std::string> cells = {absl::StrCat(rank),
                                      PercentText(device.IdleNs() / device.step_ns)};
    for (const BubbleReason reason : kReasons) {
      cells.push_back(PercentText(device.idle_ns[reason] / device.step_ns));
    }
    table.AddRow(cells);
  }
  return TableHtml(table);
}

}  // namespace

const char kHowToReadTimelines[] =
    R"html(<section class="guide"><h2>How to read the timelines</h2>
<dl><dt>lanes</dt><dd>One per device; time runs to the right, on one axis for all strategies. Two steps are shown, one
after the other, from the middle of the run. Idle shares are of all steady steps.</dd>
<dt>F3, B3</dt><dd>The forward and backward pass of micro-batch 3. I and W: the backward pass in two halves (input and
weight gradients). R: recomputation. <em>·s2</em>: of stage 2, if the device has several stages.
<em>VAE L4-7</em>: layers 4 to 7 of the frozen VAE.</dd>
<dt>cool colours</dt><dd>The model being trained. A hue is a stage; pale is forward, strong is backward. A band at the
foot of a box: the second of two pipelines that run in opposite directions.</dd>
<dt>warm colours</dt><dd>Frozen components (text encoder, VAE), which only run forward. Strong: this step&#39;s work.
Pale: the <em>next</em> step&#39;s, done in this step&#39;s bubbles.</dd>
<dt>hatched</dt><dd>Bubbles: the device computes nothing. Less is better.</dd>
<dt>thin lanes, arrows</dt><dd>Messages, sent (above) and received (below; in an executed run, only while the device
waits for them). Arrows lead from sender to receiver.</dd>
<dt>red outlines</dt><dd>The critical path of a simulated step: the chain of work and messages that sets how long it
takes. Only shortening one of these shortens the step.</dd>
<dt>curves</dt><dd>Memory that each device holds; in an executed run, after each instruction. Beside a curve is the
device&#39;s peak.</dd>
<dt>more</dt><dd>Hover over or tap a box for details. Zoom with + and −, or Ctrl and the wheel; all timelines move
together. With the keyboard: Tab to a timeline, arrow keys from box to box, + − 0 to zoom. The trace files open in
<code>ui.perfetto.dev</code> and contain all events.</dd></dl></section>
)html";

std::string FigureHtml(const TimelineParts& parts, const std::string& legend) {
  const bool has_path = absl::StrContains(parts.body, "class=\"crit\"");
  return absl::StrCat(
      "<div class=\"figure\"><div class=\"figure-head\">", legend, "<div class=\"tools\">",
      has_path ? "<button data-do=\"path\" aria-pressed=\"true\" title=\"show or hide the critical "
                 "path\">path</button>"
               : "",
      "<button data-do=\"out\" aria-label=\"zoom out\" title=\"zoom out\">−</button>"
      "<button data-do=\"all\" title=\"show all\">all</button>"
      "<button data-do=\"in\" aria-label=\"zoom in\" title=\"zoom in (or Ctrl and wheel)\">+"
      "</button></div></div>\n"
      "<div class=\"tl\">",
      parts.labels,
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"timeline; arrow keys go "
      "from box to box\">",
      parts.body, "</div></div>\n<output class=\"info\"></output></div>\n");
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

std::string FactsText(const Trace& trace, const StrategyAnalysis* analysis) {
  const Plan& plan = trace.plan();
  std::vector<std::string> facts;
  facts.push_back(
      absl::StrCat(plan.stages_size(), plan.stages_size() == 1 ? " stage, " : " stages, ",
                   plan.num_micro_batches(),
                   plan.num_micro_batches() == 1 ? " micro-batch of " : " micro-batches of ",
                   plan.micro_batch_size()));
  if (analysis != nullptr && !std::isnan(analysis->images_per_second.estimate)) {
    facts.push_back(EstimateText(analysis->images_per_second) + " img/s");
  }
  if (analysis != nullptr && !std::isnan(analysis->result->bubble_ratio_measured())) {
    facts.push_back("bubble ratio " + PercentText(analysis->result->bubble_ratio_measured()));
  }
  facts.push_back(SourceName(trace));
  if (analysis != nullptr && IsUpperReference(*analysis->result)) {
    facts.push_back("upper reference, not comparable");
  }
  return absl::StrJoin(facts, " · ");
}

// Lists the largest differences, and all waiting.
std::string InstructionTimesHtml(const StrategyResult& result) {
  constexpr int kRows = 8;
  Table table({"work", "device", "per step", "ms per step", "predicted", "difference"});
  table.SetAlign(0, Table::Align::kLeft);
  int rows = 0;
  for (const InstructionTimes& one : result.instruction_times()) {
    const bool waits = one.per_step() == 0;
    if (!waits && ++rows > kRows) continue;
    table.AddRow({one.work(), absl::StrCat(one.device()), waits ? "" : absl::StrCat(one.per_step()),
                  absl::StrFormat("%.2f", one.measured_ms()),
                  absl::StrFormat("%.2f", one.predicted_ms()),
                  absl::StrFormat("%+.2f", DifferenceMs(one))});
  }
  return absl::StrCat("<details><summary>deviations from the prediction</summary>",
                      TableHtml(table), "</details>\n");
}

}  // namespace

TimelineOptions ForMeasured(const StrategyAnalysis* analysis, TimelineOptions options) {
  if (analysis != nullptr && !std::isnan(analysis->step_ms)) {
    options.typical_step_ns = static_cast<Nanos>(analysis->step_ms * kNanosPerMilli);
  }
  return options;
}

absl::Status WidenAxes(const Trace& trace, TimelineOptions* options) {
  DPIPE_ASSIGN_OR_RETURN(const Nanos length, WindowLength(trace, *options));
  options->axis_ns = std::max(options->axis_ns, length);
  options->memory_axis_bytes = std::max(options->memory_axis_bytes, LargestMemory(trace));
  return absl::OkStatus();
}

absl::StatusOr<std::string> StrategyHtml(const StrategyTraces& traces,
                                         const StrategyAnalysis* analysis,
                                         const TimelineOptions& options) {
  const Trace* main = traces.measured != nullptr ? traces.measured : traces.predicted;
  if (main == nullptr) return std::string();
  TimelineOptions own = main == traces.measured ? ForMeasured(analysis, options) : options;
  own.id_prefix = options.id_prefix + "m";
  DPIPE_ASSIGN_OR_RETURN(const TimelineParts parts, MakeTimelineParts(*main, own));
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(*main));
  std::string html = absl::StrCat("<div class=\"strategy\"><div class=\"head-line\"><h3>",
                                  EscapeMarkup(traces.strategy), "</h3><span class=\"facts\">",
                                  EscapeMarkup(FactsText(*main, analysis)), "</span></div>\n",
                                  FigureHtml(parts, parts.legend));
  const StrategyResult* result = analysis == nullptr ? nullptr : analysis->result;
  if (result != nullptr && !result->plan().description().empty()) {
    absl::StrAppend(&html, "<p class=\"note\">", EscapeMarkup(result->plan().description()),
                    "</p>\n");
  }
  if (main == traces.measured && traces.predicted != nullptr) {
    own = options;
    own.id_prefix = options.id_prefix + "p";
    DPIPE_ASSIGN_OR_RETURN(const TimelineParts predicted,
                           MakeTimelineParts(*traces.predicted, own));
    absl::StrAppend(&html, "<details><summary>the same steps as predicted</summary>",
                    FigureHtml(predicted, predicted.legend), "</details>\n");
  }
  if (result != nullptr && !result->instruction_times().empty()) {
    html += InstructionTimesHtml(*result);
  }
  absl::StrAppend(&html, "<details><summary>time per device</summary>",
                  DeviceTimesHtml(index, options.id_prefix + "d"), "</details></div>\n");
  return html;
}

}  // namespace dpipe::report
