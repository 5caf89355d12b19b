#include "bench/suite_runner/suite_page.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/comparison/case_analysis.h"
#include "bench/suite_runner/suite_charts.h"
#include "bench/suite_runner/suite_tables.h"
#include "core/report/machine.h"
#include "core/report/page/html_assets.h"
#include "core/report/page/html_charts.h"
#include "core/report/page/html_strategy.h"
#include "core/report/page/html_timeline.h"
#include "core/report/page/markup.h"
#include "core/report/page/packed_fold.h"
#include "core/report/page/palette.h"
#include "core/report/stats.h"

namespace dpipe::bench {
namespace {

using report::EscapeMarkup;

constexpr int kMaxTimelines = 5;  // per case: more would be too much for a phone

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

std::string Warnings(const SuiteResults& results) {
  std::vector<std::string> lines = MixedOrigins(results);
  const std::vector<std::string> failures = Failures(results);
  lines.insert(lines.end(), failures.begin(), failures.end());
  if (lines.empty()) return "";
  return absl::StrCat("<section class=\"warning\"><h2>Read this first</h2>\n<p class=\"note\">",
                      "Invalid results, and results of different runs.</p>\n", ListHtml(lines),
                      "</section>\n");
}

// True for a pipeline that does frozen work in its bubbles, as opposed to its rivals and to
// strategies without a pipeline.
bool FillsBubbles(const report::StrategyResult& result) {
  return !result.is_unfilled_pipeline && result.plan.num_stages > 1 &&
         result.strategy != "offline_cache";
}

// Returns tiles with the number of results and a summary over all cases.
std::string Tiles(const SuiteResults& results) {
  int rows = 0, checked = 0;
  double largest_loss = 0, best = 0;
  std::string best_case;
  for (const SuiteCaseResult& one : results.cases) {
    for (const report::StrategyResult& result : one.results.results) {
      if (!result.counts()) continue;
      ++rows;
      if (result.loss_check.num_steps > 0) ++checked;
      largest_loss = std::fmax(largest_loss, result.loss_check.max_relative_difference);
      const double speedup = result.speedup_vs_best_unfilled_pipeline;
      if (!FillsBubbles(result) || !(speedup > best)) continue;
      best = speedup;
      best_case = absl::StrCat(result.strategy, " over the best unfilled pipeline, maximum (",
                               one.results.model, ", ", one.results.backend, ")");
    }
  }
  std::vector<double> errors;
  for (const PredictionRow& row : PredictionRows(results)) {
    errors.push_back(std::abs(row.ratio - 1));
  }
  std::string html = "<div class=\"tiles\">\n";
  html += report::TileHtml(absl::StrCat(rows), "valid results");
  if (best > 0) html += report::TileHtml(absl::StrFormat("%.2f×", best), best_case);
  if (checked > 0) {
    html += report::TileHtml(
        absl::StrFormat("%.0e", largest_loss),
        absl::StrCat("largest difference of losses to one device, of ", checked, " checked"));
  }
  if (!errors.empty()) {
    html += report::TileHtml(report::PercentText(report::Median(errors)),
                             "median error of predicted steps");
  }
  return html + "</div>\n";
}

std::string TableHtml(const report::Table& table) {
  const auto row_html = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string html = "<tr>";
    for (size_t c = 0; c < cells.size(); ++c) {
      absl::StrAppend(&html, "<", tag,
                      table.IsRightAligned(static_cast<int>(c)) ? " class=\"n\">" : ">",
                      EscapeMarkup(cells[c]), "</", tag, ">");
    }
    return html + "</tr>\n";
  };
  std::string html = "<div class=\"wide\"><table>" + row_html(table.headers(), "th");
  for (const auto& row : table.rows()) html += row_html(row, "td");
  return html + "</table></div>\n";
}

std::vector<report::SampleMarks> MarksOf(const CaseAnalysis& analysis) {
  std::vector<report::SampleMarks> marks;
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    marks.push_back({strategy.images_per_second.low, strategy.images_per_second.high,
                     strategy.outliers, analysis.warm_up_turns});
  }
  return marks;
}

// Returns indices into `traces` of the fastest strategies, in the order of the traces.
std::vector<int> ShownTimelines(const report::BenchResults& results, const CaseTraces& traces) {
  const auto speed = [&](int i) {
    const report::StrategyResult* result = results.Find(traces.traces(i).strategy());
    return result != nullptr && result->counts() ? result->MedianImagesPerSecond() : 0.0;
  };
  std::vector<int> shown(traces.traces_size());
  for (int i = 0; i < traces.traces_size(); ++i) shown[i] = i;
  std::stable_sort(shown.begin(), shown.end(), [&](int a, int b) { return speed(a) > speed(b); });
  if (shown.size() > kMaxTimelines) shown.resize(kMaxTimelines);
  std::sort(shown.begin(), shown.end());
  return shown;
}

absl::StatusOr<std::string> TimelinesHtml(const report::BenchResults& results,
                                          const CaseTraces& traces, const std::string& id_prefix) {
  std::string html;
  const std::vector<int> shown = ShownTimelines(results, traces);
  for (const int i : shown) {
    const StrategyTraceFile& trace = traces.traces(i);
    report::StrategyTraces strategy = {trace.strategy(), nullptr, nullptr};
    if (trace.measured().events_size() > 0) strategy.measured = &trace.measured();
    if (trace.predicted().events_size() > 0) strategy.predicted = &trace.predicted();
    DPIPE_ASSIGN_OR_RETURN(const std::string one,
                           report::StrategyHtml(strategy, results.Find(trace.strategy()),
                                                absl::StrCat(id_prefix, "t", i)));
    html += one;
  }
  if (html.empty()) return html;
  const int left_out = traces.traces_size() - static_cast<int>(shown.size());
  return report::PackedFold(
      left_out > 0 ? absl::StrCat("timelines of the ", shown.size(), " fastest") : "timelines",
      html);
}

absl::StatusOr<std::string> CaseHtml(const SuiteCaseResult& one, const CaseTraces& traces,
                                     const std::string& id_prefix) {
  const report::BenchResults& results = one.results;
  const std::string title =
      absl::StrCat(results.model, ", ", PlaceText(results), ", batch ", results.global_batch);
  std::string body = ListHtml(CaseNotes(one));
  if (one.state != CaseState::kMeasured) return Section(title, results.backend, body);
  DPIPE_ASSIGN_OR_RETURN(const std::string timelines, TimelinesHtml(results, traces, id_prefix));
  const std::string bubbles = BubbleChart(results);
  std::string html = absl::StrCat(
      report::ThroughputChart(results, MarksOf(AnalyseCase(results))), TableHtml(CaseTable(one)),
      body,
      bubbles.empty()
          ? ""
          : "<h3>Idle time by reason</h3>\n<p class=\"note\">Of all devices&#39; time.</p>\n",
      bubbles, timelines);
  const std::string note = absl::StrCat(
      EscapeMarkup(results.backend), ", ", EscapeMarkup(results.dtype),
      ". Bars: median images per second; a dot is a turn, a ring an outlier, a faint dot warm-up; "
      "the bracket is the median&#39;s 95 % interval. Dashed: data_parallel.");
  return Section(title, note, html);
}

std::string DevicesHtml(const SuiteResults& results) {
  std::string html;
  for (const DeviceCurves& curves : CurvesByDevices(results)) {
    absl::StrAppend(&html, "<h3>", EscapeMarkup(curves.title), "</h3>\n", DevicesChart(curves));
  }
  return html;
}

std::string OriginHtml(const SuiteResults& results) {
  if (results.cases.empty()) return "";
  const report::BenchResults& first = results.cases[0].results;
  std::string html = absl::StrCat("<pre>", EscapeMarkup(first.command_line),
                                  "</pre>\n<table class=\"facts-table\">");
  const auto row = [&](const std::string& name, const std::string& value) {
    absl::StrAppend(&html, "<tr><td>", EscapeMarkup(name), "</td><td>", EscapeMarkup(value),
                    "</td></tr>\n");
  };
  row("machine", report::DescribeMachine(first.machine));
  row("system", first.machine.operating_system + ", " + first.machine.kernel);
  row("compiler", first.machine.compiler);
  for (const auto& [name, version] : first.versions) row(name, version);
  return html + "</table>\n";
}

}  // namespace

absl::StatusOr<std::string> SuitePage(const SuiteResults& results,
                                      const std::vector<CaseTraces>& traces) {
  std::string cases;
  for (size_t i = 0; i < results.cases.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(const std::string one,
                           CaseHtml(results.cases[i], i < traces.size() ? traces[i] : CaseTraces(),
                                    absl::StrCat("c", i)));
    cases += one;
  }
  const std::string title = EscapeMarkup("Benchmark suite " + results.suite);
  const std::string machine = results.cases.empty()
                                  ? ""
                                  : report::DescribeMachine(results.cases[0].results.machine) +
                                        " · " + results.cases[0].results.created;
  std::string chart =
      PredictionRows(results).empty() ? "" : PredictionChart(PredictionRows(results));
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", report::ChartCss(), report::kReportCss, report::TimelineCss(),
      SuiteChartCss(), "</style>\n</head>\n<body>\n<main>\n<h1>", title, "</h1>\n<p class=\"sub\">",
      EscapeMarkup(results.description), "<br/>", EscapeMarkup(machine), "</p>\n", Tiles(results),
      Warnings(results),
      Section("Throughput against devices",
              "Images per second. Dashed: in proportion to devices, from the slowest start.",
              DevicesHtml(results)),
      Section(
          "Predicted against measured",
          "Step time simulated from a profile taken in the same minutes, relative to the median "
          "measured one; the band is ±5 %. Values outside the chart are drawn at its edge.",
          chart),
      cases, report::kHowToReadTimelines, Section("How it was measured", "", OriginHtml(results)),
      "</main>\n<script>", report::kReportScript, "</script>\n</body>\n</html>\n");
}

}  // namespace dpipe::bench
