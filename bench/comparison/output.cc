#include "bench/comparison/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "bench/comparison/describe_run.h"
#include "core/base/files/file.h"
#include "core/command_line/flag_help.h"
#include "core/report/page/results_page.h"
#include "core/report/results/case_analysis.h"
#include "core/report/results/results.h"
#include "core/report/results/results_table.h"
#include "core/report/timeline/perfetto.h"
#include "core/schedule/file_formats/plan_io.h"

namespace dpipe::bench {
namespace {

// Converts a strategy, which may be a composition, to a file name.
std::string FileName(const std::string& strategy) {
  return absl::StrReplaceAll(strategy, {{"=", "-"}, {",", "_"}, {"/", "-"}, {" ", ""}});
}

absl::Status WriteFiles(const Comparison& comparison, const OutputOptions& options) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(options.folder));
  Results results;
  results.set_benchmark(options.benchmark);
  *results.add_cases() = comparison.results;
  const std::string json = report::ResultsToJson(results);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options.folder + "/results.json", json));
  if (!options.json_path.empty()) {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options.json_path, json));
  }
  DPIPE_RETURN_IF_ERROR(WriteTextProto(options.folder + "/profile.textproto", comparison.profile));
  DPIPE_RETURN_IF_ERROR(WriteTextProto(options.folder + "/cluster.textproto", comparison.cluster));
  DPIPE_RETURN_IF_ERROR(WriteTextProto(options.folder + "/profile_between_turns.textproto",
                                       comparison.profile_between_turns));
  std::vector<report::StrategyTraces> traces;
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    const StrategyOutcome& outcome = comparison.outcomes[i];
    const StrategyResult& result = comparison.results.strategies(static_cast<int>(i));
    if (!result.skipped().empty()) continue;
    const std::string& strategy = result.strategy();
    const std::string trace = absl::StrCat(options.folder, "/trace.", FileName(strategy));
    DPIPE_ASSIGN_OR_RETURN(const std::string perfetto, report::PerfettoJson(outcome.measured));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(trace + ".json", perfetto));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(trace + ".pb", outcome.measured.SerializeAsString()));
    DPIPE_RETURN_IF_ERROR(WriteTextProto(
        absl::StrCat(options.folder, "/plan.", FileName(strategy), ".textproto"), outcome.plan));
    traces.push_back({strategy, &outcome.measured, &outcome.predicted});
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string html, report::ResultsPage(results, {traces}));
  return WriteFileAtomically(options.folder + "/report.html", html);
}

std::string MeaningsText() {
  std::string text;
  for (const report::ColumnMeaning& column :
       report::ResultsTableMeanings(report::TableWidth::kTerminal)) {
    text += WrapWords("  " + column.header, /*indent=*/16, column.meaning);
  }
  return text;
}

}  // namespace

std::string LossesText(const CaseResult& results) {
  std::string text;
  std::vector<std::string> left_out;
  double loss = 0, gradient_norm = 0;
  int compared = 0, steps = 0;
  bool any_invalid = false;
  for (const StrategyResult& result : results.strategies()) {
    if (!result.skipped().empty()) continue;
    const LossCheck& check = result.loss_check();
    if (!result.invalid().empty()) {
      any_invalid = true;
    } else if (result.changes_mathematics()) {
      left_out.push_back(result.strategy());
    } else if (check.num_steps() > 0) {
      ++compared;
      steps = std::max(steps, check.num_steps());
      loss = std::fmax(loss, check.max_relative_difference());
      gradient_norm = std::fmax(gradient_norm, check.max_gradient_norm_difference());
    }
  }
  if (any_invalid) {
    absl::StrAppend(&text, "Strategies must compute the same on the same samples: INVALID results ",
                    "have no speedup, and their speed means nothing.\n");
  }
  if (compared > 1) {
    absl::StrAppend(
        &text, "Losses: over ", steps, " steps on the same samples, ",
        loss == 0 && gradient_norm == 0
            ? absl::StrCat("all ", compared, " strategies that count agree bit for bit.")
            : absl::StrFormat("the %d strategies that count differ by at most %.1e, and their "
                              "gradients' global norms by %.1e (relative; order of summation).",
                              compared, loss, gradient_norm));
  }
  if (!left_out.empty()) {
    absl::StrAppend(
        &text, text.empty() || text.back() == '\n' ? "" : " ",
        "Not compared, because they change the mathematics: ", absl::StrJoin(left_out, ", "), ".");
  }
  return text;
}

bool AnyInvalid(const CaseResult& results) {
  return std::any_of(results.strategies().begin(), results.strategies().end(),
                     [](const StrategyResult& result) { return !result.invalid().empty(); });
}

absl::Status WriteAndPrint(Comparison* comparison, const OutputOptions& options) {
  DescribeRun(&comparison->results);
  DPIPE_RETURN_IF_ERROR(WriteFiles(*comparison, options));
  const report::CaseAnalysis analysis = report::AnalyseCase(comparison->results);
  std::printf("\n%s\n%s\n",
              report::ResultsTable(analysis, report::TableWidth::kTerminal).ToText().c_str(),
              options.explains ? MeaningsText().c_str()
                               : "--explain also prints what the columns mean; report.html has "
                                 "all of them.\n");
  for (const std::string& note : report::CaseNotes(comparison->results, analysis)) {
    std::printf("%s\n", note.c_str());
  }
  std::printf("%s\n", LossesText(comparison->results).c_str());
  std::printf(
      "\nReport:   %s/report.html\nResults:  %s/results.json\nTraces:   %s/trace.*.json"
      " (open in https://ui.perfetto.dev), trace.*.pb (for //tools:trace)\n",
      options.folder.c_str(), options.folder.c_str(), options.folder.c_str());
  if (!options.json_path.empty()) std::printf("Results:  %s\n", options.json_path.c_str());
  return absl::OkStatus();
}

}  // namespace dpipe::bench
