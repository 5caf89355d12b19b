#include "core/report/page/html_strategy.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/page/html_timeline.h"
#include "core/report/results/results.h"
#include "core/report/timeline/instruction_times.h"
#include "core/report/timeline/timeline_svg.h"

namespace dpipe::report {
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
