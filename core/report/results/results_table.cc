#include "core/report/results/results_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"
#include "core/report/machine.h"
#include "core/report/markup.h"
#include "core/report/results/origin.h"
#include "core/report/results/results.h"
#include "core/report/statistics/stats.h"
#include "core/report/timeline/instruction_times.h"

namespace dpipe::report {
namespace {

constexpr char kNone[] = "-";

// Gives at least three significant digits.
int Decimals(double value) { return value >= 100 ? 1 : value >= 10 ? 2 : 3; }

std::string Fixed(double value, int decimals) {
  return std::isnan(value) ? kNone : absl::StrFormat("%.*f", decimals, value);
}

std::string BytesText(int64_t bytes) { return bytes > 0 ? FormatBytes(bytes) : kNone; }

std::string LossCheckText(const StrategyResult& result) {
  if (!result.invalid().empty()) return "INVALID";
  if (result.loss_check().num_steps() == 0) return kNone;
  if (result.loss_check().max_relative_difference() == 0) return "equal";
  return absl::StrFormat("%.1e", result.loss_check().max_relative_difference());
}

std::string PlanText(const PlanSummary& plan) {
  if (plan.num_stages() == 0) return kNone;
  return absl::StrCat(plan.num_stages(), "×", plan.num_micro_batches(), "×",
                      plan.micro_batch_size(), plan.recomputes() ? " r" : "",
                      plan.sharded() ? " z" : "");
}

struct Column {
  const char* header;
  const char* meaning;  // "" if the header says it
  bool in_terminal;
  std::function<std::string(const StrategyAnalysis&)> cell;
};

const std::vector<Column>& Columns() {
  using A = StrategyAnalysis;
  static const auto* const kColumns = new std::vector<Column>{
      {"strategy", "", true, [](const A& a) { return a.result->strategy(); }},
      {"img/s", "median over turns after the warm-up", true,
       [](const A& a) {
         return a.result->invalid().empty() ? EstimateText(a.images_per_second) : "INVALID";
       }},
      {"95 % interval",
       "of the median (bootstrap; with fewer than 6 turns Student's, which assumes a normal "
       "distribution)",
       false,
       [](const A& a) {
         const std::string bounds = BoundsText(a.images_per_second);
         return bounds.empty() ? kNone : bounds;
       }},
      {"vs data par.",
       "median ratio of turns taken one after another, over data_parallel, with its 95 % interval",
       true, [](const A& a) { return RatioWithBoundsText(a.vs_data_parallel); }},
      {"vs pipeline", "the same over the fastest pipeline with unfilled bubbles", true,
       [](const A& a) { return RatioWithBoundsText(a.vs_best_pipeline); }},
      {"bubble", "idle compute time ÷ (devices × step) in the steady state", true,
       [](const A& a) {
         return PercentText(WasExecuted(*a.result) ? a.result->bubble_ratio_measured()
                                                   : a.result->bubble_ratio_predicted());
       }},
      {"predicted", "bubble, simulated with the profile of step predicted", false,
       [](const A& a) {
         return WasExecuted(*a.result) ? PercentText(a.result->bubble_ratio_predicted()) : kNone;
       }},
      {"step ms", "batch ÷ img/s", true,
       [](const A& a) { return Fixed(a.step_ms, Decimals(a.step_ms)); }},
      {"predicted", "step, simulated from a profile taken in the same minutes", true,
       [](const A& a) {
         return WasExecuted(*a.result) ? Fixed(a.result->step_ms_predicted(), Decimals(a.step_ms))
                                       : kNone;
       }},
      {"÷ bound",
       "step over the lower bound of simulated steps of this plan; measured steps may be below it",
       false, [](const A& a) { return Fixed(a.step_ms / a.result->step_ms_bound(), 3); }},
      {"memory", "peak of the fullest device", true,
       [](const A& a) { return BytesText(PeakMemoryBytes(*a.result)); }},
      {"predicted", "memory, from the profile", false,
       [](const A& a) { return BytesText(PredictedPeakMemoryBytes(*a.result)); }},
      {"losses",
       "largest relative difference to one device, or to the other strategies in steps beyond "
       "those "
       "of one device, on the same samples; gradients' global norms are compared too",
       false, [](const A& a) { return LossCheckText(*a.result); }},
      {"loss", "of the last step", false,
       [](const A& a) {
         return a.result->losses().empty() ? kNone : Fixed(*a.result->losses().rbegin(), 4);
       }},
      {"S×M×b",
       "stages × micro-batches × samples per micro-batch; r: recomputes activations, z: weights or "
       "the optimizer's state are divided over devices",
       true, [](const A& a) { return PlanText(a.result->plan()); }},
      {"on disk", "the frozen components' outputs that are read back", false,
       [](const A& a) { return BytesText(a.result->storage().disk_bytes()); }},
  };
  return *kColumns;
}

std::string StorageNote(const std::string& strategy, const StorageCost& storage) {
  const int64_t per_image = storage.disk_bytes() / std::max(1, storage.num_images());
  return absl::StrCat(strategy, " keeps ", FormatBytes(storage.disk_bytes()),
                      " on disk: ", FormatBytes(per_image), " for each of ", storage.num_images(),
                      " images and its share of ", storage.num_captions(),
                      " captions; computed in ", absl::StrFormat("%.1f s", storage.fill_ms() / 1e3),
                      ", not counted in any step.");
}

void AddStrategyNotes(const StrategyResult& result, std::vector<std::string>* notes) {
  const std::string& name = result.strategy();
  if (!result.skipped().empty()) {
    notes->push_back(absl::StrCat("Skipped ", name, ": ", result.skipped(), "."));
  }
  if (!result.invalid().empty()) {
    notes->push_back(absl::StrCat("INVALID ", name, ": ", result.invalid(), "."));
  }
  if (result.has_storage()) notes->push_back(StorageNote(name, result.storage()));
  if (!result.clips_gradients()) {
    notes->push_back(absl::StrCat(name, " does not clip gradients: its weights lag behind, so no ",
                                  "stage knows the norm of all gradients."));
  }
}

// Returns "turns 3 and 7 of gpipe" for a strategy with outliers; "" otherwise.
std::string OutlierText(const StrategyAnalysis& strategy) {
  std::vector<std::string> turns;
  for (size_t i = 0; i < strategy.outliers.size(); ++i) {
    if (strategy.outliers[i]) turns.push_back(absl::StrCat(i + 1));
  }
  if (turns.empty()) return "";
  return absl::StrCat(turns.size() == 1 ? "turn " : "turns ", absl::StrJoin(turns, ", "), " of ",
                      strategy.result->strategy());
}

std::string PlaceText(const CaseResult& results) {
  const auto cluster = results.flags().find("cluster");
  if (cluster != results.flags().end()) {
    return absl::StrCat(std::filesystem::path(cluster->second).stem().string(), " (",
                        results.num_devices(), " devices)");
  }
  const auto link = results.flags().find("link");
  const bool has_link = link != results.flags().end() && !link->second.empty();
  return absl::StrCat(results.num_devices(), results.num_devices() == 1 ? " device" : " devices",
                      has_link ? absl::StrCat(", link ", link->second) : "");
}

Table TableOf(const std::vector<std::string>& headers,
              const std::vector<std::vector<std::string>>& columns) {
  Table table(headers);
  for (size_t c = 0; c < columns.size(); ++c) {
    table.SetAlign(static_cast<int>(c), c == 0 ? Table::Align::kLeft : Table::Align::kRight);
  }
  for (size_t row = 0; row < columns[0].size(); ++row) {
    std::vector<std::string> cells;
    for (const std::vector<std::string>& column : columns) cells.push_back(column[row]);
    table.AddRow(cells);
  }
  return table;
}

// Returns all cases; `heading` and `table` format them as Markdown or as text.
std::string Document(const Results& results, TableWidth width,
                     const std::function<std::string(const std::string&)>& heading,
                     const std::function<std::string(const Table&)>& table) {
  std::string text;
  for (const CaseResult& one : results.cases()) {
    absl::StrAppend(&text, heading(CaseTitle(one)), "\n");
    const CaseAnalysis analysis = AnalyseCase(one);
    if (one.state() == CaseResult::MEASURED) {
      absl::StrAppend(&text, table(ResultsTable(analysis, width)), "\n");
    }
    for (const std::string& note : CaseNotes(one, analysis)) absl::StrAppend(&text, note, "\n");
    text += "\n";
  }
  return text;
}

}  // namespace

Table ResultsTable(const CaseAnalysis& analysis, TableWidth width) {
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> columns;
  for (const Column& column : Columns()) {
    if (width == TableWidth::kTerminal && !column.in_terminal) continue;
    std::vector<std::string> cells;
    for (const StrategyAnalysis& strategy : analysis.strategies) {
      if (strategy.result->skipped().empty()) cells.push_back(column.cell(strategy));
    }
    const bool is_empty =
        std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell == kNone; });
    if (is_empty && !headers.empty()) continue;
    headers.push_back(column.header);
    columns.push_back(std::move(cells));
  }
  // Strategies may be compositions of any length.
  while (true) {
    Table table = TableOf(headers, columns);
    if (width == TableWidth::kAll || headers.size() <= 2 || table.TextWidth() <= kTerminalWidth) {
      return table;
    }
    headers.pop_back();
    columns.pop_back();
  }
}

std::vector<ColumnMeaning> ResultsTableMeanings(TableWidth width) {
  std::vector<ColumnMeaning> meanings;
  for (const Column& column : Columns()) {
    if (column.meaning[0] == '\0' || (width == TableWidth::kTerminal && !column.in_terminal)) {
      continue;
    }
    meanings.push_back({column.header, column.meaning});
  }
  meanings.push_back({"INVALID", "the strategy computed wrong results; its numbers do not count"});
  return meanings;
}

std::string ResultsTableGlossary(TableWidth width) {
  std::vector<std::string> sentences;
  for (const ColumnMeaning& column : ResultsTableMeanings(width)) {
    sentences.push_back(absl::StrCat(column.header, ": ", column.meaning, "."));
  }
  return absl::StrJoin(sentences, " ");
}

std::string CaseTitle(const CaseResult& results) {
  return absl::StrCat(results.model(), ", ", PlaceText(results), ", batch ", results.global_batch(),
                      ", ", results.backend(), results.dtype().empty() ? "" : ", ",
                      results.dtype());
}

std::vector<std::string> CaseNotes(const CaseResult& results, const CaseAnalysis& analysis) {
  if (results.state() == CaseResult::SKIPPED) {
    return {absl::StrCat("Skipped: ", results.reason(), ".")};
  }
  if (results.state() == CaseResult::FAILED) {
    return {absl::StrCat("Failed: ", results.reason(), ".")};
  }
  std::vector<std::string> notes, outliers;
  if (!results.interrupted().empty()) {
    notes.push_back(absl::StrCat("Stopped by ", results.interrupted(), "."));
  }
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    AddStrategyNotes(*strategy.result, &notes);
    const std::string text = OutlierText(strategy);
    if (!text.empty()) outliers.push_back(text);
  }
  if (analysis.warm_up_turns > 0) {
    notes.push_back(absl::StrCat("Left out as warm-up: the first ", analysis.warm_up_turns,
                                 analysis.warm_up_turns == 1 ? " turn." : " turns."));
  }
  if (!outliers.empty()) {
    notes.push_back(absl::StrCat(
        "Outliers, which count like other turns: ", absl::StrJoin(outliers, "; "), "."));
  }
  const std::string groups = GroupsNote(results);
  if (!groups.empty()) notes.push_back(groups);
  const std::vector<std::string> predictions = PredictionNotes(analysis);
  notes.insert(notes.end(), predictions.begin(), predictions.end());
  return notes;
}

std::vector<std::string> Failures(const Results& results) {
  std::vector<std::string> failures;
  for (const CaseResult& one : results.cases()) {
    if (one.state() == CaseResult::FAILED) {
      failures.push_back(absl::StrCat(one.id(), ": ", one.reason()));
    }
    for (const StrategyResult& result : one.strategies()) {
      if (result.invalid().empty()) continue;
      failures.push_back(absl::StrCat(one.id(), ", ", result.strategy(), ": ", result.invalid()));
    }
  }
  return failures;
}

bool WasExecuted(const StrategyResult& result) {
  return !std::isnan(result.bubble_ratio_measured());
}

std::vector<std::string> PredictionNotes(const CaseAnalysis& analysis) {
  std::vector<std::string> lines;
  std::vector<double> errors;
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    const StrategyResult& result = *strategy.result;
    if (result.instruction_times().empty() || std::isnan(strategy.step_ms)) continue;
    const double error = strategy.step_ms / result.step_ms_predicted() - 1;
    errors.push_back(std::abs(error));
    const std::string deviation = LargestDeviationText(
        {result.instruction_times().begin(), result.instruction_times().end()});
    lines.push_back(absl::StrCat(result.strategy(), absl::StrFormat(": step %+.1f %%", 100 * error),
                                 deviation.empty() ? "" : "; ", deviation));
  }
  if (errors.empty()) return {};
  lines.insert(lines.begin(),
               absl::StrCat("Measured steps differ from predicted ones by ",
                            PercentText(Median(errors)), " (median), at most ",
                            PercentText(*std::max_element(errors.begin(), errors.end())), ":"));
  return lines;
}

std::string ResultsMarkdown(const Results& results) {
  std::string text = absl::StrCat("# ", results.benchmark(), "\n\n");
  if (!results.description().empty()) absl::StrAppend(&text, results.description(), "\n\n");
  if (results.cases().empty()) return text + "No case.\n";
  absl::StrAppend(&text, OriginText(results.cases(0)), "\n\n");
  for (const std::string& mixed : MixedOrigins(results)) {
    absl::StrAppend(&text, "**Mixed runs:** ", mixed, ".\n\n");
  }
  absl::StrAppend(&text,
                  Document(
                      results, TableWidth::kAll,
                      [](const std::string& heading) { return absl::StrCat("## ", heading, "\n"); },
                      [](const Table& table) { return table.ToMarkdown(); }),
                  ResultsTableGlossary(TableWidth::kAll), "\n");
  return text;
}

std::string ResultsText(const Results& results) {
  return Document(
      results, TableWidth::kTerminal, [](const std::string& heading) { return heading; },
      [](const Table& table) { return table.ToText(); });
}

}  // namespace dpipe::report
