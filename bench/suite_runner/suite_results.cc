#include "bench/suite_runner/suite_results.h"

#include "absl/strings/str_cat.h"
#include "bench/comparison/code_identity.h"
#include "core/base/text/json.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "dpipe.suite_results";
constexpr int kFormatVersion = 1;
constexpr const char* kStates[] = {"measured", "skipped", "failed"};  // by CaseState

absl::StatusOr<Json> Parse(const std::string& json) {
  return ParseJson<Json>(json, "suite results");
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

Json ToJson(const SuiteCaseResult& result) {
  return {{"id", result.id},
          {"state", kStates[static_cast<int>(result.state)]},
          {"reason", result.reason},
          {"definition", result.definition},
          {"results", Parse(report::ResultsToJson(result.results)).value()}};
}

absl::Status GetString(const Json& json, const char* key, std::string* value) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("suite results: ", key, " is missing or not a string"));
  }
  *value = found->get<std::string>();
  return absl::OkStatus();
}

template <typename T>
void Append(const std::vector<T>& from, std::vector<T>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

absl::Status AppendTurnsOf(const std::string& case_id, const report::StrategyResult* more,
                           report::StrategyResult* result) {
  if (more == nullptr || more->skipped.empty() != result->skipped.empty()) {
    const std::string then = more == nullptr ? "missing" : more->skipped;
    return absl::FailedPreconditionError(absl::StrCat("suite results: ", case_id, ", ",
                                                      result->strategy, ": skipped '",
                                                      result->skipped, "', then '", then, "'"));
  }
  Append(more->images_per_second, &result->images_per_second);
  Append(more->step_ms, &result->step_ms);
  if (result->invalid.empty()) result->invalid = more->invalid;
  return absl::OkStatus();
}

absl::StatusOr<CaseState> StateOf(const std::string& name) {
  for (int i = 0; i < 3; ++i) {
    if (name == kStates[i]) return static_cast<CaseState>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("suite results: a case's state is '", name,
                                                 "'; there are measured, skipped and failed"));
}

absl::StatusOr<SuiteCaseResult> CaseFromJson(const Json& json) {
  SuiteCaseResult result;
  std::string state;
  DPIPE_RETURN_IF_ERROR(GetString(json, "id", &result.id));
  DPIPE_RETURN_IF_ERROR(GetString(json, "state", &state));
  DPIPE_ASSIGN_OR_RETURN(result.state, StateOf(state));
  DPIPE_RETURN_IF_ERROR(GetString(json, "reason", &result.reason));
  DPIPE_RETURN_IF_ERROR(GetString(json, "definition", &result.definition));
  const auto found = json.find("results");
  if (found == json.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("suite results: case ", result.id, " has no results"));
  }
  auto results = report::ResultsFromJson(found->dump());
  if (!results.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("case ", result.id, ": ", results.status().message()));
  }
  result.results = *std::move(results);
  return result;
}

}  // namespace

const SuiteCaseResult* SuiteResults::Find(const std::string& id) const {
  for (const SuiteCaseResult& one : cases) {
    if (one.id == id) return &one;
  }
  return nullptr;
}

std::vector<std::string> MixedOrigins(const SuiteResults& results) {
  std::vector<std::string> mixed;
  for (const SuiteCaseResult& one : results.cases) {
    const report::BenchResults& first = results.cases[0].results;
    std::string difference = CodeDifference(first, one.results);
    const std::string machine = MachineDifference(first, one.results);
    if (!machine.empty()) absl::StrAppend(&difference, difference.empty() ? "" : ", ", machine);
    if (difference.empty()) continue;
    mixed.push_back(absl::StrCat(one.id, " was measured separately from ", results.cases[0].id,
                                 ": ", difference));
  }
  return mixed;
}

absl::Status AppendTurns(const SuiteResults& more, SuiteResults* results) {
  if (more.cases.size() != results->cases.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("suite results: ", results->cases.size(), " cases, then ", more.cases.size()));
  }
  for (SuiteCaseResult& one : results->cases) {
    const SuiteCaseResult* other = more.Find(one.id);
    if (other == nullptr || other->state != one.state) {
      return absl::FailedPreconditionError(absl::StrCat(
          "suite results: ", one.id, " was ", kStates[static_cast<int>(one.state)], ", then ",
          other == nullptr ? "missing" : kStates[static_cast<int>(other->state)],
          other == nullptr ? "" : ": " + other->reason));
    }
    for (report::StrategyResult& result : one.results.results) {
      DPIPE_RETURN_IF_ERROR(AppendTurnsOf(one.id, other->results.Find(result.strategy), &result));
    }
  }
  results->rounds += more.rounds;
  return absl::OkStatus();
}

std::string SuiteResultsToJson(const SuiteResults& results) {
  Json json;
  json["format"] = kFormat;
  json["format_version"] = kFormatVersion;
  json["suite"] = results.suite;
  json["description"] = results.description;
  json["turns"] = results.turns;
  json["rounds"] = results.rounds;
  json["cases"] = Json::array();
  for (const SuiteCaseResult& one : results.cases) json["cases"].push_back(ToJson(one));
  return Dump(json);
}

absl::StatusOr<SuiteResults> SuiteResultsFromJson(const std::string& json) {
  DPIPE_ASSIGN_OR_RETURN(const Json parsed, Parse(json));
  std::string format;
  DPIPE_RETURN_IF_ERROR(GetString(parsed, "format", &format));
  const auto version = parsed.find("format_version");
  if (format != kFormat || version == parsed.end() || *version != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "suite results: format is ", format, ", expected ", kFormat, " version ", kFormatVersion));
  }
  SuiteResults results;
  DPIPE_RETURN_IF_ERROR(GetString(parsed, "suite", &results.suite));
  DPIPE_RETURN_IF_ERROR(GetString(parsed, "description", &results.description));
  DPIPE_RETURN_IF_ERROR(GetString(parsed, "turns", &results.turns));
  const auto rounds = parsed.find("rounds");
  if (rounds != parsed.end()) {  // older files have none, meaning 1
    if (!rounds->is_number_integer() || *rounds < 1) {
      return absl::InvalidArgumentError(absl::StrCat("suite results: rounds is ", rounds->dump(),
                                                     "; it must be a number, at least 1"));
    }
    results.rounds = rounds->get<int>();
  }
  const auto cases = parsed.find("cases");
  if (cases == parsed.end() || !cases->is_array()) {
    return absl::InvalidArgumentError("suite results: cases is missing or not a list");
  }
  for (const Json& one : *cases) {
    DPIPE_ASSIGN_OR_RETURN(results.cases.emplace_back(), CaseFromJson(one));
  }
  return results;
}

std::string CaseResultToJson(const SuiteCaseResult& result) { return Dump(ToJson(result)); }

absl::StatusOr<SuiteCaseResult> CaseResultFromJson(const std::string& json) {
  DPIPE_ASSIGN_OR_RETURN(const Json parsed, Parse(json));
  if (!parsed.is_object()) return absl::InvalidArgumentError("suite results: not a JSON object");
  return CaseFromJson(parsed);
}

}  // namespace dpipe::bench
