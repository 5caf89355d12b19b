#include "core/report/results/results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text/json.h"
#include "core/report/statistics/stats.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "dpipe.results";
constexpr int kFormatVersion = 2;
constexpr char kSource[] = "benchmark results";

int64_t Largest(const google::protobuf::RepeatedField<int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

// Appends `json`, indented, with a list of numbers or names on one line.
void Print(const Json& json, int depth, std::string* text) {
  const bool is_flat =
      json.is_primitive() || json.empty() ||
      (json.is_array() &&
       std::all_of(json.begin(), json.end(), [](const Json& item) { return item.is_primitive(); }));
  if (is_flat) {
    text->append(json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
    return;
  }
  const std::string indent(depth + 1, ' ');
  const char* separator = "\n";
  text->push_back(json.is_array() ? '[' : '{');
  for (const auto& [key, value] : json.items()) {
    absl::StrAppend(text, separator, indent);
    if (json.is_object()) absl::StrAppend(text, Json(key).dump(), ": ");
    Print(value, depth + 1, text);
    separator = ",\n";
  }
  absl::StrAppend(text, "\n", std::string(depth, ' '), json.is_array() ? "]" : "}");
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  DPIPE_CHECK(status.ok()) << status.ToString();
  std::string text;
  Print(Json::parse(json), 0, &text);
  return text + "\n";
}

absl::Status FromJson(absl::string_view json, google::protobuf::Message* message) {
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), message);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kSource, ": ", status.message().ToString()));
}

}  // namespace

bool Counts(const StrategyResult& result) {
  return result.skipped().empty() && result.invalid().empty() &&
         !result.images_per_second().empty();
}

double MedianImagesPerSecond(const StrategyResult& result) {
  return Median(Numbers(result.images_per_second()));
}

// A turn's throughput is that of its median step, and the strategy's is the median over turns. For
// an even number of turns this averages the two middle throughputs, not times, so that batch /
// result is exactly the median throughput.
double MedianStepMs(const StrategyResult& result) {
  const std::vector<double> all = Numbers(result.step_ms());
  const size_t turns = result.images_per_second_size();
  if (turns == 0 || all.size() % turns != 0) return Median(all);
  const auto steps = static_cast<int64_t>(all.size() / turns);
  std::vector<double> rates;
  for (auto turn = all.begin(); turn != all.end(); turn += steps) {
    rates.push_back(1 / Median({turn, turn + steps}));
  }
  return 1 / Median(rates);
}

int64_t PeakMemoryBytes(const StrategyResult& result) {
  return Largest(result.peak_memory_bytes());
}

int64_t PredictedPeakMemoryBytes(const StrategyResult& result) {
  return Largest(result.peak_memory_bytes_predicted());
}

const StrategyResult* FindStrategyResult(const CaseResult& results, absl::string_view strategy) {
  for (const StrategyResult& result : results.strategies()) {
    if (result.strategy() == strategy) return &result;
  }
  return nullptr;
}

const CaseResult* FindCase(const Results& results, absl::string_view id) {
  for (const CaseResult& one : results.cases()) {
    if (one.id() == id) return &one;
  }
  return nullptr;
}

std::string ResultsToJson(Results results) {
  results.set_format(kFormat);
  results.set_format_version(kFormatVersion);
  return ToJson(results);
}

std::string CaseToJson(const CaseResult& result) { return ToJson(result); }

absl::StatusOr<Results> ResultsFromJson(absl::string_view json) {
  DPIPE_ASSIGN_OR_RETURN(const Json parsed, ParseJsonObject<Json>(json, kSource));
  const std::string format = parsed.contains("format") ? parsed["format"].dump() : "missing";
  const std::string version =
      parsed.contains("format_version") ? parsed["format_version"].dump() : "missing";
  if (format != absl::StrCat("\"", kFormat, "\"") || version != absl::StrCat(kFormatVersion)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kSource, ": format is ", format, ", version ", version, "; expected \"",
                     kFormat, "\", version ", kFormatVersion, ", as this program writes it"));
  }
  Results results;
  DPIPE_RETURN_IF_ERROR(FromJson(json, &results));
  if (results.rounds() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(kSource, ": rounds is ", results.rounds(), "; it must be at least 1"));
  }
  return results;
}

absl::StatusOr<CaseResult> CaseFromJson(absl::string_view json) {
  CaseResult result;
  DPIPE_RETURN_IF_ERROR(FromJson(json, &result));
  return result;
}

}  // namespace dpipe::report
