#include "core/report/page/results_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"
#include "core/report/machine.h"
#include "core/report/markup.h"
#include "core/report/page/html_assets.h"
#include "core/report/page/html_charts.h"
#include "core/report/page/html_timeline.h"
#include "core/report/page/packed_fold.h"
#include "core/report/page/suite_charts.h"
#include "core/report/palette.h"
#include "core/report/results/case_analysis.h"
#include "core/report/results/origin.h"
#include "core/report/results/results.h"
#include "core/report/results/results_table.h"
#include "core/report/statistics/stats.h"

namespace dpipe::report {
namespace {

// Per case of a page with several cases: more would be too much for a phone.
constexpr int kMaxTimelines = 5;

std::string Section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return absl::StrCat("<section><h2>", EscapeMarkup(title), "</h2>\n",
                      note.empty() ? "" : absl::StrCat("<p class=\"note\">", note, "</p>\n"), body,
                      "</section>\n");
}

std::string ListHtml(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html = "<ul class=\"notes\">";
  for (const std::string& line : lines) absl::StrAppend(&html, "<li>", EscapeMarkup(line), "</li>");
  return html + "</ul>\n";
}

std::string Warnings(const Results& results) {
  std::vector<std::string> lines = MixedOrigins(results);
  const std::vector<std::string> failures = Failures(results);
  lines.insert(lines.end(), failures.begin(), failures.end());
  for (const CaseResult& one : results.cases()) {
    if (!one.interrupted().empty()) {
      lines.push_back(absl::StrCat(CaseTitle(one), ": stopped by ", one.interrupted()));
    }
    for (const std::string& note : NoiseNotes(AnalyseCase(one))) {
      lines.push_back(results.cases_size() == 1 ? note : absl::StrCat(CaseTitle(one), ": ", note));
    }
  }
  if (lines.empty()) return "";
  return absl::StrCat("<section class=\"warning\"><h2>Read this first</h2>\n<p class=\"note\">",
                      "Invalid results, missing turns, results of different runs, and noise.</p>\n",
                      ListHtml(lines), "</section>\n");
}

// True for a pipeline that does frozen work in its bubbles, as opposed to its rivals and to
// strategies without a pipeline.
bool FillsBubbles(const StrategyResult& result) {
  return !result.is_unfilled_pipeline() && result.plan().num_stages() > 1 && !result.has_storage();
}

// Returns tiles with key numbers of the fastest strategy.
std::string CaseTiles(const CaseAnalysis& analysis) {
  const StrategyAnalysis* fastest = analysis.Fastest();
  if (fastest == nullptr) return "";
  std::string html = TileHtml(EstimateText(fastest->images_per_second) + " img/s",
                              fastest->result->strategy() + ", the fastest");
  const auto add_ratio = [&](const Interval& ratio, const std::string& rival) {
    if (std::isnan(ratio.estimate)) return;
    html += TileHtml(RatioText(ratio) + "×", absl::StrFormat("the throughput of %s, %.2f to %.2f",
                                                             rival, ratio.low, ratio.high));
  };
  // A strategy is not compared with itself, nor twice with the same one.
  const auto is_rival = [](const StrategyResult& result) {
    return result.is_unfilled_pipeline() || result.strategy() == "data_parallel";
  };
  const StrategyAnalysis* next = analysis.NextFastest();
  if (next != nullptr && !is_rival(*next->result)) {
    add_ratio(analysis.fastest_vs_next, next->result->strategy() + ", the next fastest");
  }
  if (!fastest->result->is_unfilled_pipeline()) {
    add_ratio(fastest->vs_best_pipeline, "the best pipeline with unfilled bubbles");
  }
  if (fastest->result->strategy() != "data_parallel") {
    add_ratio(fastest->vs_data_parallel, "data parallelism");
  }
  if (WasExecuted(*fastest->result)) {
    absl::StrAppend(&html, TileHtml(PercentText(fastest->result->bubble_ratio_measured()),
                                    "of device time idle (bubble ratio)"));
  }
  return html;
}

// Returns "measured", "emulated" or "simulated".
const char* KindOf(const CaseResult& one, const StrategyResult& result) {
  if (one.backend() == kEmulatedBackend) return "emulated";
  return WasExecuted(result) ? "measured" : "simulated";
}

// Returns tiles with the number of results and the largest gain over all measured cases; if there
// are none, over the simulated ones.
std::string SuiteTiles(const Results& results) {
  std::map<std::string, int> rows;  // by kind
  std::map<std::string, std::pair<Interval, std::string>> best;
  for (const CaseResult& one : results.cases()) {
    const CaseAnalysis analysis = AnalyseCase(one);
    for (const StrategyAnalysis& strategy : analysis.strategies) {
      if (!Counts(*strategy.result)) continue;
      const std::string kind = KindOf(one, *strategy.result);
      ++rows[kind];
      const Interval& ratio = strategy.vs_best_pipeline;
      if (!FillsBubbles(*strategy.result) || !(ratio.estimate > best[kind].first.estimate))
        continue;
      best[kind] = {ratio,
                    absl::StrCat(strategy.result->strategy(), " over the best unfilled pipeline, ",
                                 "maximum, ", kind, " (", one.model(), ", ", one.backend(), ")")};
    }
  }
  std::string html;
  for (const auto& [kind, count] : rows) html += TileHtml(absl::StrCat(count), kind + " results");
  const auto& [ratio, of] = best[rows.count("measured") > 0 ? "measured" : "simulated"];
  if (ratio.estimate > 0) {
    html += TileHtml(RatioText(ratio) + "×",
                     absl::StrFormat("%s, %.2f to %.2f", of, ratio.low, ratio.high));
  }
  return html;
}

std::string Tiles(const Results& results) {
  std::string html =
      results.cases_size() == 1 ? CaseTiles(AnalyseCase(results.cases(0))) : SuiteTiles(results);
  int checked = 0;
  double largest_loss = 0;
  for (const CaseResult& one : results.cases()) {
    for (const StrategyResult& result : one.strategies()) {
      if (!Counts(result) || result.loss_check().num_steps() == 0) continue;
      ++checked;
      largest_loss = std::fmax(largest_loss, result.loss_check().max_relative_difference());
    }
  }
  std::vector<double> errors, memory_errors;
  for (const PredictionRow& row : PredictionRows(results)) {
    errors.push_back(std::abs(row.step - 1));
    if (!std::isnan(row.memory)) memory_errors.push_back(std::abs(row.memory - 1));
  }
  if (checked > 0) {
    html += TileHtml(absl::StrFormat("%.0e", largest_loss),
                     absl::StrCat("largest difference of losses, of ", checked, " checked"));
  }
  if (!errors.empty()) {
    html += TileHtml(PercentText(Median(errors)), "median error of predicted steps");
  }
  if (!memory_errors.empty()) {
    html += TileHtml(PercentText(Median(memory_errors)), "median error of predicted memory");
  }
  return html.empty() ? "" : absl::StrCat("<div class=\"tiles\">\n", html, "</div>\n");
}

std::string CaseTableHtml(const CaseAnalysis& analysis) {
  std::vector<RowMark> marks;
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    if (!strategy.result->skipped().empty()) continue;  // not in the table
    marks.push_back(MarkOf(analysis, *strategy.result));
  }
  return TableHtml(ResultsTable(analysis, TableWidth::kAll), marks);
}

std::string LossesHtml(const CaseResult& results) {
  const std::vector<LossGroup> groups = GroupLosses(results);
  if (groups.empty()) return "";
  std::string html =
      "<h3>Loss</h3>\n<p class=\"note\">Every strategy trains on the same samples with the same "
      "noise; bitwise equal curves are drawn once.</p>\n<ul class=\"legend\">";
  for (size_t g = 0; g < groups.size(); ++g) {
    absl::StrAppend(&html, "<li><svg width=\"26\" height=\"10\"><line class=\"curve q",
                    g % kNumSeriesColors, "\" x1=\"1\" x2=\"25\" y1=\"5\" y2=\"5\"",
                    g > 0 ? " stroke-dasharray=\"6 5\"" : "", "/></svg>",
                    EscapeMarkup(absl::StrJoin(groups[g].strategies, ", ")),
                    groups[g].strategies.size() > 1 ? " (identical)" : "");
    if (g > 0) {
      absl::StrAppend(&html, absl::StrFormat(" — within %.2g of ", groups[g].max_difference),
                      EscapeMarkup(groups[0].strategies[0]));
    }
    html += "</li>";
  }
  return absl::StrCat(html, "</ul>\n", LossChart(groups));
}

const StrategyAnalysis* Find(const CaseAnalysis& analysis, const std::string& strategy) {
  for (const StrategyAnalysis& one : analysis.strategies) {
    if (one.result->strategy() == strategy) return &one;
  }
  return nullptr;
}

// Returns the `count` fastest strategies' traces, in their order.
std::vector<StrategyTraces> FastestOf(const std::vector<StrategyTraces>& traces,
                                      const CaseAnalysis& analysis, size_t count) {
  if (traces.size() <= count) return traces;
  const auto speed = [&](const StrategyTraces& trace) {
    const StrategyAnalysis* one = Find(analysis, trace.strategy);
    return one == nullptr || std::isnan(one->images_per_second.estimate)
               ? 0.0
               : one->images_per_second.estimate;
  };
  std::vector<double> speeds;
  for (const StrategyTraces& trace : traces) speeds.push_back(speed(trace));
  std::sort(speeds.rbegin(), speeds.rend());
  std::vector<StrategyTraces> fastest;
  for (const StrategyTraces& trace : traces) {
    if (fastest.size() < count && speed(trace) >= speeds[count - 1]) fastest.push_back(trace);
  }
  return fastest;
}

// All timelines of a case have one time axis and zoom together. Packs them if the page has several
// cases.
absl::StatusOr<std::string> TimelinesHtml(const CaseAnalysis& analysis,
                                          const std::vector<StrategyTraces>& traces, bool pack,
                                          const std::string& id_prefix) {
  const std::vector<StrategyTraces> shown =
      FastestOf(traces, analysis, pack ? kMaxTimelines : traces.size());
  TimelineOptions options;
  for (const StrategyTraces& one : shown) {
    if (one.predicted != nullptr) DPIPE_RETURN_IF_ERROR(WidenAxes(*one.predicted, &options));
    if (one.measured == nullptr) continue;
    TimelineOptions measured = ForMeasured(Find(analysis, one.strategy), options);
    DPIPE_RETURN_IF_ERROR(WidenAxes(*one.measured, &measured));
    options.axis_ns = measured.axis_ns;
    options.memory_axis_bytes = measured.memory_axis_bytes;
  }
  std::string html;
  for (size_t i = 0; i < shown.size(); ++i) {
    options.id_prefix = absl::StrCat(id_prefix, "t", i);
    DPIPE_ASSIGN_OR_RETURN(const std::string one,
                           StrategyHtml(shown[i], Find(analysis, shown[i].strategy), options));
    html += one;
  }
  if (html.empty()) return html;
  html = absl::StrCat("<div class=\"compare\">\n", html, "</div>\n");
  if (pack) {
    return PackedFold(shown.size() < traces.size()
                          ? absl::StrCat("timelines of the ", shown.size(), " fastest")
                          : "timelines",
                      html);
  }
  return absl::StrCat("<h3>Timelines</h3>\n<p class=\"note\">Two steps of each strategy, those ",
                      "nearest its median step, of the turn that is nearest it, on one time axis.",
                      "</p>\n", html);
}

absl::StatusOr<std::string> CaseHtml(const CaseResult& results,
                                     const std::vector<StrategyTraces>& traces, bool is_single,
                                     const std::string& id_prefix) {
  const CaseAnalysis analysis = AnalyseCase(results);
  const std::string notes = ListHtml(CaseNotes(results, analysis));
  if (results.state() != CaseResult::MEASURED) return Section(CaseTitle(results), "", notes);
  DPIPE_ASSIGN_OR_RETURN(const std::string timelines,
                         TimelinesHtml(analysis, traces, !is_single, id_prefix));
  std::string bubbles = BubbleChart(results);
  if (!bubbles.empty()) {
    bubbles =
        "<h3>Idle time by reason</h3>\n<p class=\"note\">Of all devices&#39; time, as in the "
        "table; divided as in the turn nearest the median.</p>\n" +
        bubbles;
  }
  const std::string guide = is_single && !timelines.empty() ? kHowToReadTimelines : "";
  return Section(
      CaseTitle(results),
      "Bars: median images per second, and how many times data_parallel (dashed), with 95 % "
      "intervals; a dot is a turn, a ring an outlier, a faint dot warm-up, which counts nowhere; "
      "the bracket is the median&#39;s 95 % interval.",
      absl::StrCat(ThroughputChart(analysis), CaseTableHtml(analysis), notes, bubbles,
                   LossesHtml(results), guide, timelines));
}

std::string DevicesHtml(const Results& results) {
  std::string html;
  for (const DeviceCurves& curves : CurvesByDevices(results)) {
    absl::StrAppend(&html, "<h3>", EscapeMarkup(curves.title), "</h3>\n", DevicesChart(curves));
  }
  return html;
}

std::string Row(const std::string& name, const std::string& value) {
  if (value.empty()) return "";
  return absl::StrCat("<tr><td>", EscapeMarkup(name), "</td><td>", EscapeMarkup(value),
                      "</td></tr>\n");
}

// Rows in the order of their names.
template <typename Map>
std::string Rows(const Map& facts, const char* prefix) {
  std::string html;
  for (const auto& [name, value] : std::map<std::string, std::string>(facts.begin(), facts.end())) {
    html += Row(prefix + name, value.empty() ? "\"\"" : value);
  }
  return html;
}

std::string SetupHtml(const CaseResult& results) {
  const MachineInfo& machine = results.machine();
  std::string html = absl::StrCat(
      "<section><h2>How it was measured</h2>\n<pre>", EscapeMarkup(results.command_line()),
      "</pre>\n<table class=\"facts-table\">", Row("processor", machine.cpu_model()),
      Row("cores", absl::StrCat(machine.num_logical_cores())));
  if (machine.memory_bytes() > 0) html += Row("memory", FormatBytes(machine.memory_bytes()));
  absl::StrAppend(&html, Row("GPUs", DescribeGpus(machine)), Row("driver", machine.gpu_driver()),
                  Row("system", machine.operating_system()), Row("kernel", machine.kernel()),
                  Row("compiler", machine.compiler()), Rows(results.versions(), ""), "</table>\n");
  if (!results.flags().empty()) {
    absl::StrAppend(&html, "<details><summary>all flags</summary><table class=\"facts-table\">",
                    Rows(results.flags(), "--"), "</table></details>");
  }
  return html + "</section>\n";
}

}  // namespace

absl::StatusOr<std::string> ResultsPage(const Results& results,
                                        const std::vector<std::vector<StrategyTraces>>& traces) {
  std::string cases;
  bool has_timelines = false;
  for (int i = 0; i < results.cases_size(); ++i) {
    const size_t number = i;
    const auto of_case = number < traces.size() ? traces[number] : std::vector<StrategyTraces>();
    has_timelines |= !of_case.empty();
    DPIPE_ASSIGN_OR_RETURN(
        const std::string one,
        CaseHtml(results.cases(i), of_case, results.cases_size() == 1, absl::StrCat("c", i)));
    cases += one;
  }
  const std::string title = EscapeMarkup(results.benchmark());
  std::string origin, setup, about = EscapeMarkup(results.description());
  if (!results.cases().empty()) {
    const CaseResult& first = results.cases(0);
    origin = absl::StrCat(DescribeMachine(first.machine()), " · ", first.created());
    setup = SetupHtml(first);
  }
  const std::vector<PredictionRow> predictions = PredictionRows(results);
  const std::string predicted =
      Section("Measured against predicted",
              "Step time (dot) and peak memory of the fullest device (square), over what a "
              "simulation from a profile taken in the same minutes predicts; right: more than "
              "predicted. The band is ±5 %. Values outside the chart are drawn at its edge.",
              predictions.empty() ? "" : PredictionChart(predictions));
  const bool is_single = results.cases_size() == 1;
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", ChartCss(), kReportCss, TimelineCss(), SuiteChartCss(),
      "</style>\n</head>\n<body>\n<main>\n<h1>", title, "</h1>\n<p class=\"sub\">", about,
      about.empty() ? "" : "<br/>", EscapeMarkup(origin), "</p>\n", Warnings(results),
      Tiles(results),
      Section("Throughput against devices",
              "Images per second. Dashed: in proportion to devices, from the slowest start.",
              DevicesHtml(results)),
      is_single ? cases + predicted
                : absl::StrCat(predicted, has_timelines ? kHowToReadTimelines : "", cases),
      Section("Columns of the tables", "",
              absl::StrCat("<p class=\"note\">",
                           EscapeMarkup(ResultsTableGlossary(TableWidth::kAll)), "</p>\n")),
      setup, "</main>\n<script>", kReportScript, "</script>\n</body>\n</html>\n");
}

}  // namespace dpipe::report
