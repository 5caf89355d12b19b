#include "models/lora/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

// Keeps the file's order, because the first matching pattern counts.
using Json = nlohmann::ordered_json;

// Patterns are usually plain names, one per layer with a different rank. A regular expression costs
// a few microseconds per layer.
constexpr size_t kMaxPatternBytes = 200;
constexpr int kMaxExpressions = 32;

// Keys that must be missing, null, false, empty or "none". Other values change the result.
constexpr const char* kUnsupportedKeys[] = {
    "use_dora",          "lora_bias",         "bias",        "modules_to_save",
    "use_qalora",        "layer_replication", "use_bdlora",  "trainable_token_indices",
    "velora_config",     "arrow_config",      "kasa_config", "alora_invocation_tokens",
    "target_parameters", "monteclora_config"};

// Values of init_lora_weights for which PEFT changes the base weights when it loads adapters.
constexpr const char* kChangesBase[] = {"pissa", "corda", "olora", "loftq", "lora_ga", "mica"};

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
}

// A dot in the pattern matches any character.
bool EqualsPlain(absl::string_view pattern, absl::string_view text) {
  return pattern.size() == text.size() &&
         std::equal(pattern.begin(), pattern.end(), text.begin(),
                    [](char p, char c) { return p == '.' || p == c; });
}

bool IsOff(const Json& value) {
  return value.is_null() || value == false || value == "none" ||
         (value.is_structured() && value.empty());
}

bool IsRank(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > 0 &&
         value.get<uint64_t>() <= 1'000'000;
}

bool IsAlpha(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

// Looks up a configuration's keys and makes errors about them.
struct Keys {
  const Json& json;
  const std::string& prefix;
  const std::string& source;

  Json Get(const char* key) const {
    for (const std::string& name : {absl::StrCat(prefix, key), std::string(key)}) {
      const auto it = json.find(name);
      if (it != json.end()) return *it;
    }
    return Json();
  }
  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", parts...));
  }
  absl::Status Unsupported(const char* key) const {
    return Error("'", key, "' is ", ShowJson(Get(key)),
                 ", which is not supported; merge the adapters into the model with PEFT's "
                 "merge_and_unload");
  }
};

absl::Status CheckSupported(const Keys& keys) {
  const Json type = keys.Get("peft_type");
  if (!type.is_null() && type != "LORA") return keys.Unsupported("peft_type");
  for (const char* key : kUnsupportedKeys) {
    if (!IsOff(keys.Get(key))) return keys.Unsupported(key);
  }
  const Json init = keys.Get("init_lora_weights");
  if (!init.is_string()) return absl::OkStatus();
  const std::string name = absl::AsciiStrToLower(init.get<std::string>());
  for (const char* changes : kChangesBase) {
    if (absl::StartsWith(name, changes)) return keys.Unsupported("init_lora_weights");
  }
  return absl::OkStatus();
}

// Reads the patterns of `key` and their numbers, in order.
template <typename Number>
absl::Status ReadPatterns(const Keys& keys, const char* key, bool (*is_valid)(const Json&),
                          const char* expected,
                          std::vector<std::pair<LayerPattern, Number>>* patterns) {
  const Json map = keys.Get(key);
  if (map.is_null()) return absl::OkStatus();
  if (!map.is_object()) {
    return keys.Error("'", key, "' is ", ShowJson(map), ", expected an object");
  }
  int num_expressions = 0;
  for (const auto& [name, number] : map.items()) {
    if (!is_valid(number)) {
      return keys.Error("'", key, "' is ", ShowJson(number), " for '", ShowText(name),
                        "', expected ", expected);
    }
    auto pattern = LayerPattern::Create(name);
    if (!pattern.ok()) return keys.Error("'", key, "': ", pattern.status().message());
    num_expressions += !pattern->is_plain();
    if (num_expressions > kMaxExpressions) {
      return keys.Error("'", key, "' has more than ", kMaxExpressions, " regular expressions");
    }
    patterns->emplace_back(*std::move(pattern), number.template get<Number>());
  }
  return absl::OkStatus();
}

}  // namespace

struct LayerPattern::Compiled {
  std::regex regex;
};

absl::StatusOr<LayerPattern> LayerPattern::Create(const std::string& text) {
  LayerPattern pattern;
  absl::string_view plain = text;
  pattern.whole_ = absl::ConsumePrefix(&plain, "^");
  absl::ConsumeSuffix(&plain, "$");
  if (IsPlain(plain)) {
    pattern.plain_ = std::string(plain);
    return pattern;
  }
  std::string reason = "it is not a supported regular expression";
  if (text.size() > kMaxPatternBytes) {
    reason = absl::StrCat("it is longer than ", kMaxPatternBytes, " characters");
  } else if (absl::StrContains(text, "{")) {
    reason = "counted repetitions are not supported";
  } else if (absl::StrContains(text, "(?")) {
    reason = "groups that begin with (? are not supported";
  } else {
    // Searches breadth-first, in time proportional to the pattern's length times the name's, and
    // rejects back-references.
    const auto flags =
        std::regex::ECMAScript | std::regex::nosubs | std::regex_constants::__polynomial;
    try {
      pattern.compiled_ = std::make_shared<const Compiled>(
          Compiled{std::regex(absl::StrCat("(.*\\.)?(", text, ")"), flags)});
      return pattern;
    } catch (const std::regex_error&) {
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("the pattern '", ShowText(text), "': ", reason));
}

bool LayerPattern::Matches(absl::string_view layer) const {
  if (compiled_ != nullptr) {
    try {
      return std::regex_match(layer.begin(), layer.end(), compiled_->regex);
    } catch (const std::regex_error&) {  // too complex
      return false;
    }
  }
  if (layer.size() < plain_.size()) return false;
  const size_t begin = layer.size() - plain_.size();
  return EqualsPlain(plain_, layer.substr(begin)) &&
         (begin == 0 || (!whole_ && layer[begin - 1] == '.'));
}

absl::StatusOr<AdapterConfig> AdapterConfig::Parse(const std::string& text,
                                                   const std::string& prefix,
                                                   const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(const Json json, ParseJsonObject<Json>(text, source));
  const Keys keys{json, prefix, source};
  DPIPE_RETURN_IF_ERROR(CheckSupported(keys));
  AdapterConfig config;
  config.source_ = source;
  const Json alpha = keys.Get("lora_alpha"), rank = keys.Get("r");
  if (alpha.is_null() && rank.is_null()) return config;
  if (!IsAlpha(alpha) || !IsRank(rank)) {
    return keys.Error("'lora_alpha' is ", ShowJson(alpha), " and 'r' is ", ShowJson(rank),
                      ", expected a number and a positive integer");
  }
  config.rank_ = rank.get<int64_t>();
  config.alpha_ = alpha.get<double>();
  config.rank_stabilized_ = keys.Get("use_rslora") == true;
  DPIPE_RETURN_IF_ERROR(
      ReadPatterns(keys, "rank_pattern", IsRank, "a positive integer", &config.rank_patterns_));
  DPIPE_RETURN_IF_ERROR(
      ReadPatterns(keys, "alpha_pattern", IsAlpha, "a number", &config.alpha_patterns_));
  return config;
}

absl::StatusOr<double> AdapterConfig::ScaleOf(absl::string_view layer, int64_t rank) const {
  if (!has_scale()) return 1.0;
  const auto first_match = [layer](const auto& patterns, auto otherwise) {
    for (const auto& [pattern, number] : patterns) {
      if (pattern.Matches(layer)) return number;
    }
    return otherwise;
  };
  const int64_t expected = first_match(rank_patterns_, rank_);
  if (expected != rank) {
    return absl::InvalidArgumentError(absl::StrCat(source_, " sets the rank of ", ShowText(layer),
                                                   " to ", expected, ", but its tensors have rank ",
                                                   rank));
  }
  const double by = static_cast<double>(rank);
  return first_match(alpha_patterns_, alpha_) / (rank_stabilized_ ? std::sqrt(by) : by);
}

}  // namespace dpipe::models
