// ClipTokenizer::Load: reads a folder's files as transformers does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"
#include "models/tokenizer/clip_tokenizer.h"

namespace dpipe {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = 64 * kMiB;  // CLIP's vocab.json has 1 MB

// Returns the file as a JSON object, or an empty object if there is no such file.
absl::StatusOr<Json> ReadJsonObject(const std::string& path) {
  const auto content = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(content.status())) return Json::object();
  DPIPE_RETURN_IF_ERROR(content.status());
  return ParseJsonObject(*content, path);
}

// Contents of vocab.json and merges.txt, and their origin.
struct Vocabulary {
  std::string vocab_json;
  std::string merges_txt;
  std::string source;
};

// A merge is "a b" or ["a", "b"] in tokenizer.json, and "a b" in merges.txt.
absl::StatusOr<std::string> MergeLine(const Json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return absl::StrCat(merge[0].get<std::string>(), " ", merge[1].get<std::string>());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the merge ", ShowJson(merge), " is not two symbols"));
}

absl::StatusOr<Vocabulary> FromTokenizerJson(const Json& json) {
  const Json model = json.contains("model") ? json["model"] : Json();
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object() ||
      !model.contains("merges") || !model["merges"].is_array()) {
    return absl::InvalidArgumentError("no \"model\" with the \"vocab\" and \"merges\" of BPE");
  }
  Vocabulary vocabulary;
  vocabulary.vocab_json = model["vocab"].dump();
  for (const Json& merge : model["merges"]) {
    DPIPE_ASSIGN_OR_RETURN(const std::string line, MergeLine(merge));
    absl::StrAppend(&vocabulary.merges_txt, line, "\n");
  }
  return vocabulary;
}

absl::Status In(const std::string& source, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
}

// `tokenizer_json` is the folder's tokenizer.json, empty if there is none.
absl::StatusOr<Vocabulary> ReadVocabularyFiles(const std::string& folder,
                                               const Json& tokenizer_json) {
  const auto vocab = ReadFile(absl::StrCat(folder, "/vocab.json"), kMaxFileBytes);
  if (absl::IsNotFound(vocab.status()) && !tokenizer_json.empty()) {
    const std::string source = absl::StrCat(folder, "/tokenizer.json");
    auto vocabulary = FromTokenizerJson(tokenizer_json);
    if (!vocabulary.ok()) return In(source, vocabulary.status());
    vocabulary->source = absl::StrCat(source, ", as vocab.json and merges.txt");
    return vocabulary;
  }
  DPIPE_RETURN_IF_ERROR(vocab.status());
  DPIPE_ASSIGN_OR_RETURN(const std::string merges,
                         ReadFile(absl::StrCat(folder, "/merges.txt"), kMaxFileBytes));
  return Vocabulary{*vocab, merges, folder};
}

// A special token is written as a string, or as an object with its text in "content".
absl::Status ReadToken(const Json& json, const char* key, const std::string& path,
                       std::string& token) {
  if (!json.contains(key) || json[key].is_null()) return absl::OkStatus();
  const Json& value = json[key];
  const Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
  if (!text.is_string() || text.get<std::string>().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", key, " is ", ShowJson(value), ", not a token"));
  }
  token = text.get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadTokens(const Json& json, const std::string& path, ClipTokenizerConfig& config) {
  DPIPE_RETURN_IF_ERROR(ReadToken(json, "bos_token", path, config.bos_token));
  DPIPE_RETURN_IF_ERROR(ReadToken(json, "eos_token", path, config.eos_token));
  return ReadToken(json, "pad_token", path, config.pad_token);
}

bool Flag(const Json& token, const char* key, bool missing) {
  return token.contains(key) && token[key].is_boolean() ? token[key].get<bool>() : missing;
}

// Reads an entry of `added_tokens_decoder` or of tokenizer.json's `added_tokens`.
absl::StatusOr<AddedToken> ReadAddedToken(const Json& json, int32_t id) {
  if (!json.is_object() || !json.contains("content") || !json["content"].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the added token ", ShowJson(json), " has no \"content\""));
  }
  AddedToken token;
  token.content = json["content"].get<std::string>();
  token.id = id;
  token.normalized = Flag(json, "normalized", !Flag(json, "special", false));
  if (!Flag(json, "single_word", false)) return token;
  return absl::InvalidArgumentError(absl::StrCat("the added token \"", ShowText(token.content),
                                                 "\" has single_word, which is not supported"));
}

using TokensById = std::map<int32_t, AddedToken>;

absl::Status ReadDecoder(const Json& decoder, TokensById& tokens) {
  for (const auto& [key, value] : decoder.items()) {
    int32_t id;
    if (!absl::SimpleAtoi(key, &id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", ShowText(key), "\" in added_tokens_decoder is not an id"));
    }
    DPIPE_ASSIGN_OR_RETURN(tokens[id], ReadAddedToken(value, id));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> ReadId(const Json& id) {
  if (id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max()) {
    return id.get<int32_t>();
  }
  return absl::InvalidArgumentError(absl::StrCat("an added token's id is ", ShowJson(id)));
}

// Reads added_tokens.json, which maps tokens to ids.
absl::Status ReadIdsByToken(const Json& json, const ClipTokenizerConfig& config,
                            TokensById& tokens) {
  for (const auto& [content, value] : json.items()) {
    DPIPE_ASSIGN_OR_RETURN(const int32_t id, ReadId(value));
    const bool special =
        content == config.bos_token || content == config.eos_token || content == config.pad_token;
    tokens[id] = {content, id, /*normalized=*/!special};
  }
  return absl::OkStatus();
}

absl::Status ReadList(const Json& list, TokensById& tokens) {
  for (const Json& entry : list) {
    DPIPE_ASSIGN_OR_RETURN(const int32_t id,
                           ReadId(entry.is_object() ? entry.value("id", Json()) : Json()));
    DPIPE_ASSIGN_OR_RETURN(tokens[id], ReadAddedToken(entry, id));
  }
  return absl::OkStatus();
}

// Reads the added tokens from the same file as transformers.
absl::Status ReadAddedTokens(const std::string& folder, const Json& config_json,
                             const Json& tokenizer_json, ClipTokenizerConfig& config) {
  TokensById tokens;
  const auto in = [&](const char* file, const absl::Status& status) {
    return status.ok() ? status : In(absl::StrCat(folder, "/", file), status);
  };
  if (config_json.contains("added_tokens_decoder")) {
    DPIPE_RETURN_IF_ERROR(
        in("tokenizer_config.json", ReadDecoder(config_json["added_tokens_decoder"], tokens)));
  } else {
    DPIPE_ASSIGN_OR_RETURN(const Json ids,
                           ReadJsonObject(absl::StrCat(folder, "/added_tokens.json")));
    DPIPE_RETURN_IF_ERROR(in("added_tokens.json", ReadIdsByToken(ids, config, tokens)));
    const Json list = tokenizer_json.value("added_tokens", Json::array());
    DPIPE_RETURN_IF_ERROR(in("tokenizer.json", ReadList(list, tokens)));
  }
  for (auto& [id, token] : tokens) config.added_tokens.push_back(std::move(token));
  return absl::OkStatus();
}

absl::StatusOr<ClipTokenizerConfig> ReadConfig(const std::string& folder,
                                               const Json& tokenizer_json) {
  ClipTokenizerConfig config;
  const std::string config_path = absl::StrCat(folder, "/tokenizer_config.json");
  const std::string special_path = absl::StrCat(folder, "/special_tokens_map.json");
  DPIPE_ASSIGN_OR_RETURN(const Json json, ReadJsonObject(config_path));
  DPIPE_RETURN_IF_ERROR(ReadTokens(json, config_path, config));
  if (!json.contains("added_tokens_decoder")) {
    DPIPE_ASSIGN_OR_RETURN(const Json special, ReadJsonObject(special_path));
    DPIPE_RETURN_IF_ERROR(ReadTokens(special, special_path, config));
  }
  DPIPE_RETURN_IF_ERROR(ReadAddedTokens(folder, json, tokenizer_json, config));
  if (!json.contains("model_max_length")) return config;
  const Json& length = json["model_max_length"];
  if (!length.is_number() || std::isnan(length.get<double>())) {
    return absl::InvalidArgumentError(
        absl::StrCat(config_path, ": model_max_length is ", ShowJson(length)));
  }
  const double value = length.get<double>();
  if (value >= 1e9) return config;  // transformers writes 1e30 for "not set"
  config.max_length = static_cast<int>(std::max(value, -1.0));
  return config;
}

}  // namespace

absl::StatusOr<ClipTokenizer> ClipTokenizer::Load(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const Json tokenizer_json,
                         ReadJsonObject(absl::StrCat(folder, "/tokenizer.json")));
  DPIPE_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabularyFiles(folder, tokenizer_json));
  DPIPE_ASSIGN_OR_RETURN(const ClipTokenizerConfig config, ReadConfig(folder, tokenizer_json));
  auto tokenizer = Create(vocabulary.vocab_json, vocabulary.merges_txt, config);
  return tokenizer.ok() ? std::move(tokenizer) : In(vocabulary.source, tokenizer.status());
}

}  // namespace dpipe
