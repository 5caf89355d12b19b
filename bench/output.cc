#include "bench/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "bench/code_identity.h"
#include "core/base/file.h"
#include "core/report/html_report.h"
#include "core/report/perfetto.h"
#include "core/report/results_table.h"
#include "google/protobuf/text_format.h"

namespace dpipe::bench {
namespace {

// A strategy may be a composition: its name is not a file's name.
std::string FileName(const std::string& strategy) {
  return absl::StrReplaceAll(strategy, {{"=", "-"}, {",", "_"}, {"/", "-"}, {" ", ""}});
}

absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return WriteFileAtomically(path, text);
}

absl::Status WriteFiles(const Comparison& comparison, const OutputOptions& options) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(options.folder));
  const std::string json = report::ResultsToJson(comparison.results);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options.folder + "/results.json", json));
  if (!options.json_path.empty()) {
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options.json_path, json));
  }
  DPIPE_RETURN_IF_ERROR(WriteProto(options.folder + "/profile.textproto", comparison.profile));
  DPIPE_RETURN_IF_ERROR(WriteProto(options.folder + "/cluster.textproto", comparison.cluster));
  DPIPE_RETURN_IF_ERROR(WriteProto(options.folder + "/profile_between_turns.textproto",
                                   comparison.profile_between_turns));
  std::vector<report::StrategyTraces> traces;
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    const StrategyOutcome& outcome = comparison.outcomes[i];
    const std::string& strategy = comparison.results.results[i].strategy;
    DPIPE_ASSIGN_OR_RETURN(const std::string perfetto, report::PerfettoJson(outcome.measured));
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(
        absl::StrCat(options.folder, "/trace.", FileName(strategy), ".json"), perfetto));
    DPIPE_RETURN_IF_ERROR(WriteProto(
        absl::StrCat(options.folder, "/plan.", FileName(strategy), ".textproto"), outcome.plan));
    traces.push_back({strategy, &outcome.measured, &outcome.predicted});
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string html, report::HtmlReport(comparison.results, traces));
  return WriteFileAtomically(options.folder + "/report.html", html);
}

}  // namespace

std::string CompareLosses(const report::BenchResults& results) {
  std::vector<std::vector<double>> losses;
  std::vector<std::string> lagging;
  for (const report::StrategyResult& result : results.results) {
    // Weights lag behind where gradients are not clipped: other gradients, other losses.
    if (!result.clips_gradients) {
      lagging.push_back(result.strategy);
    } else {
      losses.push_back(result.losses);
    }
  }
  if (losses.size() < 2) return "";
  double largest = 0;
  for (const std::vector<double>& other : losses) {
    for (size_t i = 0; i < losses[0].size(); ++i) {
      largest = std::max(largest, std::abs(other[i] - losses[0][i]) / std::abs(losses[0][i]));
    }
  }
  const std::string left_out =
      lagging.empty() ? "" : absl::StrCat(" Not compared: ", absl::StrJoin(lagging, ", "), ".");
  const std::string steps = absl::StrCat("over ", losses[0].size(), " steps on the same samples, ");
  if (largest == 0) {
    return absl::StrCat("Losses: ", steps, "all strategies agree bit for bit.", left_out);
  }
  return absl::StrCat("Losses: ", steps, "the strategies differ by at most ",
                      absl::StrFormat("%.1e", largest), " (relative; order of summation).",
                      left_out);
}

absl::Status WriteAndPrint(Comparison* comparison, const OutputOptions& options) {
  DescribeRun(&comparison->results);
  DPIPE_RETURN_IF_ERROR(WriteFiles(*comparison, options));
  std::printf("\n%s\n%s\n\n", report::ResultsTable(comparison->results).ToText().c_str(),
              report::ResultsTableNotes().c_str());
  for (const report::StrategyResult& result : comparison->results.results) {
    for (const std::string& note : report::StrategyNotes(result)) {
      std::printf("Note: %s\n", note.c_str());
    }
  }
  std::printf("%s\n", CompareLosses(comparison->results).c_str());
  const std::string predictions = report::PredictionText(comparison->results);
  if (!predictions.empty()) std::printf("\n%s\n", predictions.c_str());
  std::printf(
      "\nReport:   %s/report.html\nResults:  %s/results.json\nTraces:   %s/trace.*.json"
      " (open in https://ui.perfetto.dev)\n",
      options.folder.c_str(), options.folder.c_str(), options.folder.c_str());
  if (!options.json_path.empty()) std::printf("Results:  %s\n", options.json_path.c_str());
  return absl::OkStatus();
}

}  // namespace dpipe::bench
