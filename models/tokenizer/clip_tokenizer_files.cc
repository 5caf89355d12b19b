// ClipTokenizer::Load: the folder's files and what transformers makes of them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = 64 * kMiB;  // CLIP's vocab.json has 1 MB

// The file as a JSON object; an empty one if the file is not there.
absl::StatusOr<Json> ReadJsonObject(const std::string& path) {
  const auto content = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(content.status())) return Json::object();
  DPIPE_RETURN_IF_ERROR(content.status());
  Json json = Json::parse(*content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
  return json;
}

// A special token is written as a string, or as an object with its text in "content".
absl::Status ReadToken(const Json& json, const char* key, const std::string& path,
                       std::string& token) {
  if (!json.contains(key) || json[key].is_null()) return absl::OkStatus();
  const Json& value = json[key];
  const Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
  if (!text.is_string() || text.get<std::string>().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", key, " is ", value.dump().substr(0, 100), ", not a token"));
  }
  token = text.get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadTokens(const Json& json, const std::string& path, ClipTokenizerConfig& config) {
  DPIPE_RETURN_IF_ERROR(ReadToken(json, "bos_token", path, config.bos_token));
  DPIPE_RETURN_IF_ERROR(ReadToken(json, "eos_token", path, config.eos_token));
  return ReadToken(json, "pad_token", path, config.pad_token);
}

absl::StatusOr<ClipTokenizerConfig> ReadConfig(const std::string& folder) {
  ClipTokenizerConfig config;
  const std::string config_path = absl::StrCat(folder, "/tokenizer_config.json");
  const std::string special_path = absl::StrCat(folder, "/special_tokens_map.json");
  DPIPE_ASSIGN_OR_RETURN(const Json json, ReadJsonObject(config_path));
  DPIPE_RETURN_IF_ERROR(ReadTokens(json, config_path, config));
  if (!json.contains("added_tokens_decoder")) {
    DPIPE_ASSIGN_OR_RETURN(const Json special, ReadJsonObject(special_path));
    DPIPE_RETURN_IF_ERROR(ReadTokens(special, special_path, config));
  }
  if (!json.contains("model_max_length")) return config;
  const Json& length = json["model_max_length"];
  if (!length.is_number()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config_path, ": model_max_length is ", length.dump().substr(0, 100)));
  }
  const double value = length.get<double>();
  if (value >= 1e9) return config;  // transformers writes 1e30 for "not set"
  config.max_length = static_cast<int>(std::max(value, -1.0));
  return config;
}

}  // namespace

absl::StatusOr<ClipTokenizer> ClipTokenizer::Load(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const std::string vocab,
                         ReadFile(absl::StrCat(folder, "/vocab.json"), kMaxFileBytes));
  DPIPE_ASSIGN_OR_RETURN(const std::string merges,
                         ReadFile(absl::StrCat(folder, "/merges.txt"), kMaxFileBytes));
  DPIPE_ASSIGN_OR_RETURN(const ClipTokenizerConfig config, ReadConfig(folder));
  auto tokenizer = Create(vocab, merges, config);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(folder, ": ", tokenizer.status().message()));
}

}  // namespace dpipe
