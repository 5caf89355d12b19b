#include "models/config/component_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::models {

using nlohmann::json;

struct ComponentConfig::Document {
  json root;
};

namespace {

// Maximum bytes of problems in a message, if there are several.
constexpr size_t kMaxProblemBytes = 240;

// Larger values come from a damaged file. With these limits, products of a few channels, heads or
// pixels fit in 64 bits, and a network of that many layers can be built.
constexpr int64_t kMaxSize = 1 << 20, kMaxLayers = 1000;
constexpr size_t kMaxEntries = 100;  // per list, mostly of blocks

int64_t MaxOf(const std::string& key) {
  const bool counts_layers = key == "layers_per_block" || key == "num_hidden_layers" ||
                             key == "num_layers" || key == "num_single_layers" ||
                             key == "transformer_layers_per_block";
  return counts_layers ? kMaxLayers : kMaxSize;
}

// True for JSON values that are a valid positive integer for `key`.
class IsSize {
 public:
  explicit IsSize(const std::string& key) : max_(MaxOf(key)) {}
  bool operator()(const json& value) const {
    return value.is_number_integer() && value.get<int64_t>() > 0 && value.get<int64_t>() <= max_;
  }

 private:
  const int64_t max_;
};

// Returns " of at most 1000" if `value` was rejected because it is too large, else "".
std::string Limit(const std::string& key, const json& value) {
  const auto is_larger = [&key](const json& item) {
    return item.is_number_integer() && item.get<int64_t>() > MaxOf(key);
  };
  const bool too_large =
      value.is_array() ? std::any_of(value.begin(), value.end(), is_larger) : is_larger(value);
  return too_large ? absl::StrCat(" of at most ", MaxOf(key)) : "";
}

bool IsAmong(const json& value, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&value](const std::string& text) { return json::parse(text) == value; });
}

}  // namespace

ComponentConfig::ComponentConfig(std::unique_ptr<Document> document)
    : document_(std::move(document)) {}
ComponentConfig::ComponentConfig(ComponentConfig&&) noexcept = default;
ComponentConfig& ComponentConfig::operator=(ComponentConfig&&) noexcept = default;
ComponentConfig::~ComponentConfig() = default;

absl::StatusOr<ComponentConfig> ComponentConfig::Parse(const std::string& text,
                                                       const std::string& source) {
  auto document = std::make_unique<Document>();
  DPIPE_ASSIGN_OR_RETURN(document->root, ParseJsonObject(text, source));
  ComponentConfig config(std::move(document));
  config.source_ = source;
  return config;
}

absl::StatusOr<ComponentConfig> ComponentConfig::Read(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Parse(text, path);
}

bool ComponentConfig::Absent(const std::string& key) const {
  const auto it = document_->root.find(key);
  return it == document_->root.end() || it->is_null();
}

bool ComponentConfig::IsNull(const std::string& key) const {
  const auto it = document_->root.find(key);
  return it != document_->root.end() && it->is_null();
}

void ComponentConfig::AddProblem(const std::string& key, const std::string& what) {
  const auto it = document_->root.find(key);
  const std::string value = it == document_->root.end() ? "missing" : ShowJson(*it);
  problems_.push_back(absl::StrCat("'", key, "' is ", value, ", ", what));
}

int64_t ComponentConfig::PositiveInt(const std::string& key, int64_t default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  if (IsSize(key)(value)) return value.get<int64_t>();
  AddProblem(key, absl::StrCat("expected a positive integer", Limit(key, value)));
  return default_value;
}

int64_t ComponentConfig::EqualPositiveInts(const std::string& key, int64_t default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  const json& first = value.is_array() && !value.empty() ? value[0] : value;
  const auto is_first = [&first](const json& item) { return item == first; };
  if (IsSize(key)(first) &&
      (!value.is_array() || std::all_of(value.begin(), value.end(), is_first))) {
    return first.get<int64_t>();
  }
  AddProblem(
      key, absl::StrCat("expected a positive integer or a list of equal ones", Limit(key, value)));
  return default_value;
}

double ComponentConfig::Number(const std::string& key, double default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  AddProblem(key, "expected a finite number");
  return default_value;
}

bool ComponentConfig::Bool(const std::string& key, bool default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  if (value.is_boolean()) return value.get<bool>();
  AddProblem(key, "expected true or false");
  return default_value;
}

std::string ComponentConfig::String(const std::string& key, const std::string& default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  if (value.is_string()) return value.get<std::string>();
  AddProblem(key, "expected a string");
  return default_value;
}

std::vector<int64_t> ComponentConfig::PositiveInts(const std::string& key,
                                                   std::vector<int64_t> default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  if (!value.is_array() || value.empty() || value.size() > kMaxEntries ||
      !std::all_of(value.begin(), value.end(), IsSize(key))) {
    AddProblem(key, absl::StrCat("expected a list of positive integers", Limit(key, value),
                                 value.size() > kMaxEntries
                                     ? absl::StrCat(", at most ", kMaxEntries, " of them")
                                     : ""));
    return default_value;
  }
  return value.get<std::vector<int64_t>>();
}

std::vector<int64_t> ComponentConfig::PerBlock(const std::string& key, int64_t default_value,
                                               size_t count) {
  const std::vector<int64_t> defaults(count, default_value);
  if (Absent(key)) return defaults;
  const json& value = document_->root[key];
  if (IsSize(key)(value)) return std::vector<int64_t>(count, value.get<int64_t>());
  if (value.is_array() && value.size() == count &&
      std::all_of(value.begin(), value.end(), IsSize(key))) {
    return value.get<std::vector<int64_t>>();
  }
  AddProblem(key, absl::StrCat("expected a positive integer or a list of ", count, " of them",
                               Limit(key, value)));
  return defaults;
}

std::vector<bool> ComponentConfig::Indices(const std::string& key, int64_t count) {
  std::vector<bool> listed(count, false);
  if (Absent(key)) return listed;
  const json& value = document_->root[key];
  const auto is_index = [count](const json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < count;
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_index)) {
    AddProblem(key, absl::StrCat("expected a list of integers from 0 to ", count - 1));
    return listed;
  }
  for (const json& item : value) listed[item.get<int64_t>()] = true;
  return listed;
}

std::vector<std::string> ComponentConfig::Strings(const std::string& key,
                                                  std::vector<std::string> default_value) {
  if (Absent(key)) return default_value;
  const json& value = document_->root[key];
  const auto is_string = [](const json& item) { return item.is_string(); };
  if (!value.is_array() || value.empty() || value.size() > kMaxEntries ||
      !std::all_of(value.begin(), value.end(), is_string)) {
    AddProblem(key, "expected a list of strings");
    return default_value;
  }
  return value.get<std::vector<std::string>>();
}

void ComponentConfig::Expect(const std::string& key, const std::vector<std::string>& supported) {
  const auto it = document_->root.find(key);
  if (it == document_->root.end()) return;  // diffusers' default, which is always supported
  if (IsAmong(*it, supported)) return;
  AddProblem(key, absl::StrCat("supported: ", absl::StrJoin(supported, ", ")));
}

void ComponentConfig::ExpectEach(const std::string& key,
                                 const std::vector<std::string>& supported) {
  const auto it = document_->root.find(key);
  const auto is_supported = [&supported](const json& item) { return IsAmong(item, supported); };
  if (it != document_->root.end() && it->is_array() && !it->empty() &&
      std::all_of(it->begin(), it->end(), is_supported)) {
    return;
  }
  Expect(key, supported);
}

absl::Status ComponentConfig::CheckKind(const std::string& key,
                                        const std::string& supported) const {
  const auto it = document_->root.find(key);
  if (it == document_->root.end() || *it == supported) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source_, ": '", key, "' is ", ShowJson(*it),
                                                 "; only \"", supported, "\" is supported"));
}

absl::Status ComponentConfig::status() const {
  if (problems_.empty()) return absl::OkStatus();
  std::string text = absl::StrCat(source_, ": ", problems_[0]);
  size_t length = problems_[0].size(), shown = 1;
  while (shown < std::min(problems_.size(), kMaxShownNames)) {
    length += problems_[shown].size();
    if (length > kMaxProblemBytes) break;
    absl::StrAppend(&text, "; ", problems_[shown++]);
  }
  const size_t others = problems_.size() - shown;
  if (others > 0) absl::StrAppend(&text, "; and ", others, " more problems");
  return absl::InvalidArgumentError(text);
}

}  // namespace dpipe::models
