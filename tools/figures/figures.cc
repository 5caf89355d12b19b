#include "tools/figures/figures.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/report/results/case_analysis.h"
#include "core/report/results/results.h"
#include "core/report/table.h"

namespace dpipe {
namespace {

constexpr absl::string_view kBegin = "<!--= ";
constexpr absl::string_view kEndOfExpression = "-->";
constexpr char kStepOfPlan[] = "Step: +([0-9.]+ ms)";
constexpr absl::string_view kEnd = "<!--/-->";

using Strings = std::vector<std::string>;

struct Titled {
  std::string title;
  std::string name;
};

Titled SplitTitle(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return {std::string(text), std::string(text)};
  return {absl::StrReplaceAll(text.substr(0, equals), {{"_", " "}}),
          std::string(text.substr(equals + 1))};
}

absl::StatusOr<std::string> Formatted(const nlohmann::json& value, const std::string& format) {
  if (value.is_string()) {
    if (const auto parsed = absl::ParsedFormat<'s'>::New(format)) {
      return absl::StrFormat(*parsed, value.get<std::string>());
    }
  } else if (value.is_number()) {
    if (const auto parsed =
            absl::ParsedFormat<absl::FormatConversionCharSet::kFloating>::New(format)) {
      return absl::StrFormat(*parsed, value.get<double>());
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("the format ", format, " does not suit the value ",
                                                 ShowJson(value),
                                                 "; numbers take one like %.1f, strings %s"));
}

// "1.03x", or "1.03x [1.01, 1.05]".
absl::StatusOr<std::string> RatioTo(const CaseResult& result, const std::string& strategy,
                                    absl::string_view rivals, bool with_bounds) {
  const report::Interval ratio =
      report::RatioToFastest(result, strategy, absl::StrSplit(rivals, ','));
  if (std::isnan(ratio.estimate)) {
    return absl::NotFoundError(
        absl::StrCat(strategy, " or all of ", rivals, " were not measured there"));
  }
  std::string text = absl::StrCat(report::RatioText(ratio), "x");
  if (with_bounds && strategy != rivals && ratio.low != ratio.high) {
    absl::StrAppendFormat(&text, " [%.2f, %.2f]", ratio.low, ratio.high);
  }
  return text;
}

std::string AsBlock(absl::string_view markdown) {
  return absl::StrCat("\n\n", absl::StripAsciiWhitespace(markdown), "\n\n");
}

// Returns nullptr if the strategy was not measured.
const report::StrategyAnalysis* FindStrategy(const report::CaseAnalysis& analysis,
                                             absl::string_view name) {
  for (const report::StrategyAnalysis& strategy : analysis.strategies) {
    if (strategy.result->strategy() == name) return &strategy;
  }
  return nullptr;
}

// Returns what follows `word`, without blanks around it.
absl::string_view After(absl::string_view expression, absl::string_view word) {
  return absl::StripAsciiWhitespace(expression.substr(expression.find(word) + word.size()));
}

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::string> Figures::Text(const std::string& file) {
  auto found = texts_.find(file);
  if (found == texts_.end()) {
    DPIPE_ASSIGN_OR_RETURN(std::string text, ReadFile(absl::StrCat(root_, "/", file)));
    found = texts_.emplace(file, std::move(text)).first;
  }
  return found->second;
}

absl::StatusOr<const Results*> Figures::ReadResults(const std::string& file) {
  auto found = results_.find(file);
  if (found == results_.end()) {
    DPIPE_ASSIGN_OR_RETURN(const std::string text, Text(file));
    absl::StatusOr<Results> results = report::ResultsFromJson(text);
    if (!results.ok()) return WithContext(results.status(), file);
    found = results_.emplace(file, *std::move(results)).first;
  }
  return &found->second;
}

absl::StatusOr<const CaseResult*> Figures::FindCase(absl::string_view name) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits('#', 1));
  DPIPE_ASSIGN_OR_RETURN(const Results* results, ReadResults(parts.first));
  if (parts.second.empty() && results->cases_size() == 1) return &results->cases(0);
  const CaseResult* found = report::FindCase(*results, parts.second);
  if (found != nullptr) return found;
  Strings ids;
  for (const CaseResult& result : results->cases()) ids.push_back(result.id());
  return absl::NotFoundError(absl::StrCat(parts.first, " has no case '", parts.second,
                                          "', but these: ", absl::StrJoin(ids, ", ")));
}

// Cases in which the strategy was not measured do not count.
absl::StatusOr<std::string> Figures::Range(absl::string_view cases, const std::string& strategy,
                                           absl::string_view rivals, int* num_runs) {
  std::vector<double> ratios;
  for (absl::string_view name : absl::StrSplit(cases, ',')) {
    DPIPE_ASSIGN_OR_RETURN(const CaseResult* result, FindCase(SplitTitle(name).name));
    const double ratio =
        report::RatioToFastest(*result, strategy, absl::StrSplit(rivals, ',')).estimate;
    if (!std::isnan(ratio)) ratios.push_back(ratio);
  }
  if (ratios.empty()) {
    return absl::NotFoundError(absl::StrCat(strategy, " was measured in none of ", cases));
  }
  if (num_runs != nullptr) *num_runs = static_cast<int>(ratios.size());
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return absl::StrFormat("%.2fx to %.2fx", *low, *high);
}

absl::StatusOr<std::string> Figures::RunsTable(absl::string_view cases,
                                               absl::string_view strategies,
                                               absl::string_view rivals) {
  const Strings names = absl::StrSplit(cases, ',');
  DPIPE_ASSIGN_OR_RETURN(const CaseResult* first, FindCase(SplitTitle(names[0]).name));
  report::Table table({"strategy", "img/s", absl::StrCat("vs `", rivals, "` [95 %]"),
                       absl::StrFormat("in %d runs", names.size())});
  for (const std::string& strategy : Strings(absl::StrSplit(strategies, ','))) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string rate,
        Evaluate(absl::StrCat("rate ", SplitTitle(names[0]).name, " ", strategy)));
    DPIPE_ASSIGN_OR_RETURN(const std::string ratio, RatioTo(*first, strategy, rivals, true));
    int num_runs = 0;
    DPIPE_ASSIGN_OR_RETURN(std::string range, Range(cases, strategy, rivals, &num_runs));
    if (strategy == rivals) range = "";
    if (strategy != rivals && num_runs != static_cast<int>(names.size())) {
      absl::StrAppend(&range, " (", num_runs, ")");
    }
    table.AddRow({absl::StrCat("`", strategy, "`"), rate, ratio, range});
  }
  return AsBlock(table.ToMarkdown());
}

absl::StatusOr<std::string> Figures::RatiosTable(absl::string_view cases,
                                                 absl::string_view strategies,
                                                 absl::string_view rivals) {
  Strings headers = {"strategy"};
  std::vector<const CaseResult*> results;
  for (absl::string_view name : absl::StrSplit(cases, ',')) {
    const Titled titled = SplitTitle(name);
    DPIPE_ASSIGN_OR_RETURN(const CaseResult* result, FindCase(titled.name));
    headers.push_back(titled.title);
    results.push_back(result);
  }
  report::Table table(headers);
  for (const std::string& strategy : Strings(absl::StrSplit(strategies, ','))) {
    Strings row = {absl::StrCat("`", strategy, "`")};
    for (const CaseResult* result : results) {
      DPIPE_ASSIGN_OR_RETURN(row.emplace_back(), RatioTo(*result, strategy, rivals, true));
    }
    table.AddRow(row);
  }
  return AsBlock(table.ToMarkdown());
}

absl::StatusOr<std::string> Figures::PredictionsTable(absl::string_view cases,
                                                      absl::string_view strategies,
                                                      absl::string_view rivals) {
  Strings headers = {"strategy"};
  std::vector<const CaseResult*> results;
  std::vector<report::CaseAnalysis> analyses;
  for (absl::string_view name : absl::StrSplit(cases, ',')) {
    const Titled titled = SplitTitle(name);
    DPIPE_ASSIGN_OR_RETURN(const CaseResult* result, FindCase(titled.name));
    headers.push_back(titled.title);
    headers.push_back("predicted step");
    results.push_back(result);
    analyses.push_back(report::AnalyseCase(*result));
  }
  report::Table table(headers);
  for (const std::string& strategy : Strings(absl::StrSplit(strategies, ','))) {
    Strings row = {absl::StrCat("`", strategy, "`")};
    for (size_t i = 0; i < results.size(); ++i) {
      DPIPE_ASSIGN_OR_RETURN(const std::string ratio, RatioTo(*results[i], strategy, rivals, true));
      const report::StrategyAnalysis& measured = *FindStrategy(analyses[i], strategy);
      const double predicted_ms = measured.result->step_ms_predicted();
      if (!(predicted_ms > 0)) {  // NaN if it was not stored
        return absl::NotFoundError(absl::StrCat(strategy, " has no predicted step"));
      }
      row.push_back(absl::StrCat(report::EstimateText(measured.images_per_second), " (",
                                 absl::StrReplaceAll(ratio, {{"x", ""}}), ")"));
      row.push_back(absl::StrFormat("%+.1f %%", 100 * (predicted_ms / measured.step_ms - 1)));
    }
    table.AddRow(row);
  }
  return AsBlock(table.ToMarkdown());
}

absl::StatusOr<std::string> Figures::Find(const std::string& file, absl::string_view pattern) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Text(file));
  std::smatch match;
  if (std::regex_search(text, match, std::regex(std::string(pattern))) && match.size() > 1) {
    return match[1].str();
  }
  return absl::NotFoundError(
      absl::StrCat(file, " has no match of ", pattern, " with a group in parentheses"));
}

absl::StatusOr<std::string> Figures::OfPlan(const std::string& file, const std::string& arguments,
                                            const std::string& pattern) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Text(file));
  const size_t begin = text.find(absl::StrCat(" -- ", arguments, " --profile"));
  if (begin == std::string::npos) {
    return absl::NotFoundError(absl::StrCat(file, " has no plan with the arguments ", arguments));
  }
  const std::string plan = text.substr(begin, text.find("\n$ ", begin) - begin);
  std::smatch match;
  if (!std::regex_search(plan, match, std::regex(pattern))) {
    return absl::NotFoundError(
        absl::StrCat(file, " says nothing like ", pattern, " of the plan ", arguments));
  }
  return match[1].str();
}

absl::StatusOr<std::string> Figures::PlansTable(const std::string& file,
                                                absl::string_view strategies,
                                                const std::string& arguments) {
  report::Table table({"strategy", "step", "idle", "groups x devices, stages"});
  for (const std::string& strategy : Strings(absl::StrSplit(strategies, ','))) {
    const std::string plan = absl::StrCat("--strategy=", strategy, " ", arguments);
    Strings row = {absl::StrCat("`", strategy, "`")};
    DPIPE_ASSIGN_OR_RETURN(row.emplace_back(), OfPlan(file, plan, kStepOfPlan));
    DPIPE_ASSIGN_OR_RETURN(row.emplace_back(), OfPlan(file, plan, "Bubbles: +([0-9.]+ %)"));
    DPIPE_ASSIGN_OR_RETURN(const std::string groups, OfPlan(file, plan, "([0-9]+) group"));
    DPIPE_ASSIGN_OR_RETURN(const std::string devices, OfPlan(file, plan, "of ([0-9]+) device"));
    DPIPE_ASSIGN_OR_RETURN(const std::string stages, OfPlan(file, plan, "([0-9]+) stages"));
    row.push_back(absl::StrCat(groups, " x ", devices, ", ", stages));
    table.AddRow(row);
  }
  return AsBlock(table.ToMarkdown());
}

absl::StatusOr<std::string> Figures::Evaluate(absl::string_view expression) {
  // Regular expressions and JSON pointers that are none are reported by exceptions.
  try {
    return EvaluateWords(expression);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

absl::StatusOr<std::string> Figures::EvaluateWords(absl::string_view expression) {
  const Strings words = absl::StrSplit(expression, ' ', absl::SkipEmpty());
  const std::string name = words.empty() ? "" : words[0];
  if (name == "find" && words.size() >= 3) {
    DPIPE_ASSIGN_OR_RETURN(const std::string found, Find(words[1], After(expression, words[1])));
    return absl::StrContains(found, '\n') ? AsBlock(found) : found;
  }
  if (name == "number" && words.size() >= 4) {
    const absl::string_view after_file = After(expression, words[1]);
    DPIPE_ASSIGN_OR_RETURN(const std::string found, Find(words[1], After(after_file, words[2])));
    double value = 0;
    if (!absl::SimpleAtod(found, &value)) {
      return absl::InvalidArgumentError(absl::StrCat("'", found, "' is not a number"));
    }
    return Formatted(value, words[2]);
  }
  if (name == "step" && words.size() >= 3) {
    return OfPlan(words[1], absl::StrJoin(words.begin() + 2, words.end(), " "), kStepOfPlan);
  }
  if (name == "plans" && words.size() >= 4) {
    return PlansTable(words[1], words[2], absl::StrJoin(words.begin() + 3, words.end(), " "));
  }
  if (words.size() == 3 && name == "rate") {
    DPIPE_ASSIGN_OR_RETURN(const CaseResult* result, FindCase(words[1]));
    const report::CaseAnalysis analysis = report::AnalyseCase(*result);
    const report::StrategyAnalysis* strategy = FindStrategy(analysis, words[2]);
    if (strategy != nullptr) return report::EstimateText(strategy->images_per_second);
    return absl::NotFoundError(absl::StrCat(words[1], " has no strategy ", words[2]));
  }
  if (words.size() == 4) {
    if (name == "ratio" || name == "ratio_bounds") {
      DPIPE_ASSIGN_OR_RETURN(const CaseResult* result, FindCase(words[1]));
      return RatioTo(*result, words[2], words[3], name == "ratio_bounds");
    }
    if (name == "range") return Range(words[1], words[2], words[3], nullptr);
    if (name == "runs") return RunsTable(words[1], words[2], words[3]);
    if (name == "ratios") return RatiosTable(words[1], words[2], words[3]);
    if (name == "predictions") return PredictionsTable(words[1], words[2], words[3]);
    if (name == "json") {
      DPIPE_ASSIGN_OR_RETURN(const std::string text, Text(words[1]));
      DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, words[1]));
      const nlohmann::json::json_pointer pointer(words[2]);
      if (!json.contains(pointer)) {
        return absl::NotFoundError(absl::StrCat(words[1], " has no value ", words[2]));
      }
      return Formatted(json.at(pointer), words[3]);
    }
  }
  return absl::InvalidArgumentError(
      "no such expression, or too many or too few words; tools/figures/figures.h lists them");
}

absl::StatusOr<std::string> Figures::Update(absl::string_view markdown) {
  std::string result;
  size_t done = 0;
  while (true) {
    const size_t begin = markdown.find(kBegin, done);
    if (begin == absl::string_view::npos) break;
    const absl::string_view before = markdown.substr(0, begin);
    const std::string line =
        absl::StrCat("line ", 1 + std::count(before.begin(), before.end(), '\n'));
    const size_t close = markdown.find(kEndOfExpression, begin);
    const size_t end = close == absl::string_view::npos ? close : markdown.find(kEnd, close);
    if (end == absl::string_view::npos || markdown.find(kBegin, begin + 1) < end) {
      return absl::InvalidArgumentError(absl::StrCat(line, ": no ", kEnd, " ends this figure"));
    }
    const size_t text = begin + kBegin.size();
    const absl::string_view expression =
        absl::StripAsciiWhitespace(markdown.substr(text, close - text));
    const absl::StatusOr<std::string> figure = Evaluate(expression);
    if (!figure.ok()) {
      return WithContext(figure.status(), absl::StrCat(line, ": ", expression));
    }
    absl::StrAppend(&result, markdown.substr(done, close + kEndOfExpression.size() - done), *figure,
                    kEnd);
    done = end + kEnd.size();
  }
  absl::StrAppend(&result, markdown.substr(done));
  return result;
}

}  // namespace dpipe
