#include "core/report/page/html_report.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"
#include "core/report/page/html_assets.h"
#include "core/report/page/html_charts.h"
#include "core/report/page/html_timeline.h"
#include "core/report/page/markup.h"
#include "core/report/page/palette.h"
#include "core/report/results_table.h"

namespace dpipe::report {
namespace {

std::string Title(const BenchResults& results) {
  return absl::StrCat(results.benchmark, ": ", results.model, " on ", results.num_devices, " ",
                      results.backend, results.num_devices == 1 ? " device" : " devices");
}

const StrategyResult* Fastest(const BenchResults& results) {
  const StrategyResult* best = nullptr;
  for (const StrategyResult& result : results.results) {
    if (!result.counts()) continue;
    if (best == nullptr || result.MedianImagesPerSecond() > best->MedianImagesPerSecond())
      best = &result;
  }
  return best;
}

// Shows the key numbers of diffusionpipe, or of the fastest strategy if it did not run.
std::string Tiles(const BenchResults& results) {
  const StrategyResult* result = results.Find("diffusionpipe");
  if (result == nullptr || !result->counts()) result = Fastest(results);
  if (result == nullptr) return "";
  std::string html = "<div class=\"tiles\">\n";
  html +=
      TileHtml(absl::StrFormat("%.1f img/s", result->MedianImagesPerSecond()), result->strategy);
  if (!std::isnan(result->speedup_vs_best_unfilled_pipeline)) {
    html += TileHtml(absl::StrFormat("%.2f×", result->speedup_vs_best_unfilled_pipeline),
                     "the throughput of the best pipeline with unfilled bubbles");
  }
  if (!std::isnan(result->speedup_vs_data_parallel)) {
    html += TileHtml(absl::StrFormat("%.2f×", result->speedup_vs_data_parallel),
                     "the throughput of data parallel");
  }
  if (!std::isnan(result->bubble_ratio_measured)) {
    html +=
        TileHtml(PercentText(result->bubble_ratio_measured), "of device time idle (bubble ratio)");
  }
  if (!std::isnan(result->step_over_bound)) {
    html += TileHtml(absl::StrFormat("%.2f×", result->step_over_bound),
                     "the proven lower bound of a step with the profiled times");
  }
  return html + "</div>\n";
}

// Shows warnings before any number: invalid results, missing turns.
std::string Warnings(const BenchResults& results) {
  std::string html;
  const auto add = [&](const std::string& line) {
    absl::StrAppend(&html, "<p>", EscapeMarkup(line), "</p>\n");
  };
  for (const StrategyResult& result : results.results) {
    if (!result.invalid.empty()) add("INVALID " + result.strategy + ": " + result.invalid + ".");
    if (!result.skipped.empty()) add(result.strategy + " has no result: " + result.skipped + ".");
  }
  if (!results.interrupted.empty()) add("Stopped by " + results.interrupted + ".");
  if (html.empty()) return "";
  return absl::StrCat("<section class=\"warning\"><h2>Warnings</h2>\n", html, "</section>\n");
}

std::string ResultsHtml(const BenchResults& results) {
  const Table table = ResultsTable(results);
  const StrategyResult* best = Fastest(results);
  const int num_columns = static_cast<int>(table.headers().size());
  const auto row_html = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string html;
    for (int c = 0; c < num_columns; ++c) {
      absl::StrAppend(&html, "<", tag, table.IsRightAligned(c) ? " class=\"n\">" : ">",
                      EscapeMarkup(cells[c]), "</", tag, ">");
    }
    return html;
  };
  std::string html =
      absl::StrCat("<div class=\"wide\"><table><tr>", row_html(table.headers(), "th"), "</tr>\n");
  for (const auto& row : table.rows()) {
    const bool is_best = best != nullptr && row[0] == best->strategy;
    absl::StrAppend(&html, is_best ? "<tr class=\"best\">" : "<tr>", row_html(row, "td"),
                    "</tr>\n");
  }
  std::string notes = ResultsTableNotes();
  for (const StrategyResult& result : results.results) {
    for (const std::string& note : StrategyNotes(result)) absl::StrAppend(&notes, " ", note);
  }
  return absl::StrCat(html, "</table></div>\n<p class=\"note\">", EscapeMarkup(notes), "</p>\n");
}

std::string LossesHtml(const BenchResults& results) {
  const std::vector<LossGroup> groups = GroupLosses(results);
  if (groups.empty()) return "";
  std::string html =
      "<section><h2>Loss</h2>\n<p class=\"note\">Every strategy trains on the same samples with "
      "the "
      "same noise; bitwise equal curves are drawn once.</p>\n<ul class=\"legend\">";
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
  return absl::StrCat(html, "</ul>\n", LossChart(groups), "</section>\n");
}

std::string Row(const std::string& name, const std::string& value) {
  if (value.empty()) return "";
  return absl::StrCat("<tr><td>", EscapeMarkup(name), "</td><td>", EscapeMarkup(value),
                      "</td></tr>\n");
}

std::string SetupHtml(const BenchResults& results) {
  const MachineInfo& machine = results.machine;
  std::string html = absl::StrCat(
      "<section><h2>How it was measured</h2>\n<pre>", EscapeMarkup(results.command_line),
      "</pre>\n<table class=\"facts-table\">", Row("processor", machine.cpu_model),
      Row("cores", absl::StrCat(machine.num_logical_cores)));
  if (machine.memory_bytes > 0) html += Row("memory", FormatBytes(machine.memory_bytes));
  absl::StrAppend(&html, Row("system", machine.operating_system), Row("kernel", machine.kernel),
                  Row("compiler", machine.compiler));
  for (const auto& [library, version] : results.versions) html += Row(library, version);
  html += "</table>\n<details><summary>all flags</summary><table class=\"facts-table\">";
  for (const auto& [flag, value] : results.flags)
    html += Row("--" + flag, value.empty() ? "\"\"" : value);
  return html + "</table></details></section>\n";
}

}  // namespace

absl::StatusOr<std::string> HtmlReport(const BenchResults& results,
                                       const std::vector<StrategyTraces>& traces) {
  std::string timelines;
  for (size_t i = 0; i < traces.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string one,
        StrategyHtml(traces[i], results.Find(traces[i].strategy), absl::StrCat("s", i)));
    timelines += one;
  }
  const std::string title = EscapeMarkup(Title(results));
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", ChartCss(), kReportCss, TimelineCss(),
      "</style>\n</head>\n<body>\n<main>\n<h1>", title, "</h1>\n<p class=\"sub\">",
      EscapeMarkup(DescribeMachine(results.machine)), " · ", EscapeMarkup(results.dtype),
      " · global batch ", results.global_batch, " · ", EscapeMarkup(results.created), "</p>\n",
      Warnings(results), Tiles(results),
      "<section><h2>Throughput</h2>\n<p class=\"note\">Median images per second, and how "
      "many times data parallel (dashed); a dot is one turn.</p>\n",
      ThroughputChart(results),
      "</section>\n"
      "<section><h2>Results</h2>\n",
      ResultsHtml(results), "</section>\n");
  if (!timelines.empty()) {
    absl::StrAppend(&html,
                    "<section><h2>Timelines</h2>\n<p class=\"note\">Two steps of each strategy, "
                    "those nearest its median step, of the turn that is nearest it.</p>\n",
                    timelines, "</section>\n", kHowToReadTimelines);
  }
  absl::StrAppend(&html, LossesHtml(results), SetupHtml(results), "</main>\n<script>",
                  kReportScript, "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace dpipe::report
