#include "bench/suite_runner/suite_tables.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/comparison/case_analysis.h"
#include "core/base/bytes.h"
#include "core/report/machine.h"
#include "core/report/page/markup.h"
#include "core/report/results_table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;

constexpr char kColumns[] =
    "img/s: median over turns after the warm-up, with its 95 % interval (bootstrap; with fewer "
    "than 6 turns Student's, which assumes a normal distribution). vs data parallel, vs pipeline: "
    "median ratio of turns taken one after another (ratio of medians, if a note says that groups "
    "were measured one after another), over data_parallel and over the fastest pipeline with "
    "unfilled bubbles, with its interval. bubble: idle compute time over devices times step, "
    "measured (simulated if nothing is executed) and predicted. step predicted / measured: step "
    "time simulated from a profile taken in the same minutes over the median step. memory: of the "
    "fullest device. losses: largest relative difference to one device, or to the other strategies "
    "in steps beyond those of one device, on the same samples; gradients' global norms are also "
    "compared.";

std::string LossText(const report::StrategyResult& result) {
  if (!result.invalid.empty()) return "INVALID";
  if (result.loss_check.num_steps == 0) return "-";
  if (result.loss_check.max_relative_difference == 0) return "equal";
  return absl::StrFormat("%.1e", result.loss_check.max_relative_difference);
}

std::string PredictionText(const report::StrategyResult& result) {
  const double ratio = result.step_ms_predicted / result.MedianStepMs();
  const bool executed = !std::isnan(result.bubble_ratio_measured);
  return executed && !std::isnan(ratio) ? absl::StrFormat("%.3f", ratio) : "-";
}

std::string MemoryText(const report::StrategyResult& result) {
  const int64_t bytes = result.LargestPeakMemoryBytes();
  return bytes > 0 ? FormatBytes(bytes) : "-";
}

// Returns "turns 3 and 7 of gpipe" for a strategy with outliers; "" otherwise.
std::string OutlierText(const StrategyAnalysis& strategy) {
  std::vector<std::string> turns;
  for (size_t i = 0; i < strategy.outliers.size(); ++i) {
    if (strategy.outliers[i]) turns.push_back(absl::StrCat(i + 1));
  }
  if (turns.empty()) return "";
  return absl::StrCat(turns.size() == 1 ? "turn " : "turns ", absl::StrJoin(turns, ", "), " of ",
                      strategy.result->strategy);
}

std::string OriginText(const SuiteResults& results) {
  const report::BenchResults& first = results.cases[0].results;
  const auto version = [&](const char* name) {
    const auto found = first.versions.find(name);
    return found == first.versions.end() ? std::string("unknown") : found->second;
  };
  return absl::StrCat(report::DescribeMachine(first.machine), ". Revision ", version("revision"),
                      ", program ", version("program"), ", ", first.created, ".");
}

// Returns all cases; `heading` and `table` format them as Markdown or as text.
std::string Document(const SuiteResults& results,
                     const std::function<std::string(const std::string&)>& heading,
                     const std::function<std::string(const report::Table&)>& table) {
  std::string text;
  for (const SuiteCaseResult& one : results.cases) {
    const report::BenchResults& case_results = one.results;
    absl::StrAppend(
        &text,
        heading(absl::StrCat(case_results.model, ", ", PlaceText(case_results), ", batch ",
                             case_results.global_batch, ", ", case_results.backend)),
        "\n");
    if (one.state == CaseState::kMeasured) absl::StrAppend(&text, table(CaseTable(one)), "\n");
    for (const std::string& note : CaseNotes(one)) absl::StrAppend(&text, note, "\n");
    text += "\n";
  }
  return text;
}

}  // namespace

report::Table CaseTable(const SuiteCaseResult& result) {
  report::Table table({"strategy", "img/s", "vs data parallel", "vs pipeline", "bubble",
                       "bubble predicted", "step predicted / measured", "memory", "losses",
                       "S×M×b"});
  table.SetAlign(0, report::Table::Align::kLeft);
  const CaseAnalysis analysis = AnalyseCase(result.results);
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    const report::StrategyResult& one = *strategy.result;
    if (!one.skipped.empty()) continue;
    table.AddRow({one.strategy, IntervalText(strategy.images_per_second),
                  IntervalText(strategy.vs_data_parallel, "x"),
                  IntervalText(strategy.vs_best_pipeline, "x"),
                  PercentText(one.bubble_ratio_measured), PercentText(one.bubble_ratio_predicted),
                  PredictionText(one), MemoryText(one), LossText(one),
                  absl::StrCat(one.plan.num_stages, "×", one.plan.num_micro_batches, "×",
                               one.plan.micro_batch_size)});
  }
  return table;
}

std::vector<std::string> CaseNotes(const SuiteCaseResult& result) {
  if (result.state == CaseState::kSkipped) return {absl::StrCat("Skipped: ", result.reason, ".")};
  if (result.state == CaseState::kFailed) return {absl::StrCat("Failed: ", result.reason, ".")};
  std::vector<std::string> notes, outliers;
  for (const report::StrategyResult& one : result.results.results) {
    if (!one.skipped.empty()) {
      notes.push_back(absl::StrCat("Skipped ", one.strategy, ": ", one.skipped, "."));
    }
    if (!one.invalid.empty()) {
      notes.push_back(absl::StrCat("INVALID ", one.strategy, ": ", one.invalid, "."));
    }
    for (const std::string& note : report::StrategyNotes(one)) notes.push_back(note);
  }
  const CaseAnalysis analysis = AnalyseCase(result.results);
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    const std::string text = OutlierText(strategy);
    if (!text.empty()) outliers.push_back(text);
  }
  if (analysis.warm_up_turns > 0) {
    notes.push_back(absl::StrCat("Left out as warm-up: the first ", analysis.warm_up_turns,
                                 analysis.warm_up_turns == 1 ? " turn." : " turns."));
  }
  const std::string groups = GroupsNote(result.results);
  if (!groups.empty()) notes.push_back(groups);
  const std::string predictions = report::PredictionText(result.results);
  for (absl::string_view line : absl::StrSplit(predictions, '\n', absl::SkipEmpty())) {
    notes.push_back(std::string(line));
  }
  if (!outliers.empty()) {
    notes.push_back(absl::StrCat(
        "Outliers, which count like other turns: ", absl::StrJoin(outliers, "; "), "."));
  }
  return notes;
}

std::string PlaceText(const report::BenchResults& results) {
  const auto cluster = results.flags.find("cluster");
  if (cluster != results.flags.end()) {
    return absl::StrCat(std::filesystem::path(cluster->second).stem().string(), " (",
                        results.num_devices, " devices)");
  }
  return absl::StrCat(results.num_devices, results.num_devices == 1 ? " device" : " devices");
}

std::string SuiteMarkdown(const SuiteResults& results) {
  std::string text = absl::StrCat("# Benchmark suite ", results.suite, "\n\n");
  if (!results.description.empty()) absl::StrAppend(&text, results.description, "\n\n");
  if (results.cases.empty()) return text + "No case.\n";
  absl::StrAppend(&text, OriginText(results), "\n\n");
  for (const std::string& mixed : MixedOrigins(results)) {
    absl::StrAppend(&text, "**Mixed runs:** ", mixed, ".\n\n");
  }
  absl::StrAppend(
      &text,
      Document(
          results, [](const std::string& heading) { return absl::StrCat("## ", heading, "\n"); },
          [](const report::Table& table) { return table.ToMarkdown(); }),
      kColumns, "\n");
  return text;
}

std::string SuiteText(const SuiteResults& results) {
  return Document(
      results, [](const std::string& heading) { return heading; },
      [](const report::Table& table) { return table.ToText(); });
}

std::vector<std::string> Failures(const SuiteResults& results) {
  std::vector<std::string> failures;
  for (const SuiteCaseResult& one : results.cases) {
    if (one.state == CaseState::kFailed) {
      failures.push_back(absl::StrCat(one.id, ": ", one.reason));
    }
    for (const report::StrategyResult& result : one.results.results) {
      if (result.invalid.empty()) continue;
      failures.push_back(absl::StrCat(one.id, ", ", result.strategy, ": ", result.invalid));
    }
  }
  return failures;
}

}  // namespace dpipe::bench
