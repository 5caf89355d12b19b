#include "models/tokenizer/t5_tokenizer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "models/tokenizer/sentence_piece.pb.h"

namespace dpipe {
namespace {

constexpr char kConfigFile[] = "/tokenizer_config.json";
constexpr int kMaxExtraIds = 100000;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// Returns a key's value; null if there is no such file or key.
absl::StatusOr<nlohmann::json> ReadKey(const std::string& path, const char* key) {
  const auto text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return nlohmann::json();
  DPIPE_RETURN_IF_ERROR(text.status());
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json config, ParseJsonObject(*text, path));
  const auto found = config.find(key);
  return found == config.end() ? nlohmann::json() : *found;
}

absl::StatusOr<int> ReadExtraIds(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json value, ReadKey(path, "extra_ids"));
  if (value.is_null()) return 100;
  if (!value.is_number_integer() || value < 0 || value > kMaxExtraIds) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": extra_ids is ", ShowJson(value),
                                                   "; expected an integer from 0 to ",
                                                   kMaxExtraIds));
  }
  return value.get<int>();
}

// Reads the character map from the normalizer of a tokenizer.json, which may be one of several.
absl::Status ReadNormalizer(const nlohmann::json& normalizer, spiece::Model* model) {
  if (!normalizer.is_object()) return absl::OkStatus();
  if (normalizer.value("type", "") == "Sequence") {
    for (const nlohmann::json& part : normalizer.value("normalizers", nlohmann::json::array())) {
      DPIPE_RETURN_IF_ERROR(ReadNormalizer(part, model));
    }
    return absl::OkStatus();
  }
  // The others join spaces, as all models of T5 do.
  if (normalizer.value("type", "") != "Precompiled") return absl::OkStatus();
  std::string map;
  if (!absl::Base64Unescape(normalizer.value("precompiled_charsmap", ""), &map)) {
    return absl::InvalidArgumentError("precompiled_charsmap is not base64");
  }
  model->mutable_normalizer_spec()->set_precompiled_charsmap(map);
  return absl::OkStatus();
}

// Returns the model file with the content of a tokenizer.json of T5.
absl::StatusOr<spiece::Model> ModelOf(const nlohmann::json& json) {
  const nlohmann::json& unigram = json.at("model");
  if (unigram.at("type") != "Unigram") {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model is of type ", ShowJson(unigram.at("type")), "; supported: \"Unigram\""));
  }
  spiece::Model model;
  model.mutable_trainer_spec()->set_byte_fallback(unigram.value("byte_fallback", false));
  std::map<std::string, spiece::Piece::Type> added;
  for (const nlohmann::json& token : json.value("added_tokens", nlohmann::json::array())) {
    added[token.at("content").get<std::string>()] =
        token.value("special", false) ? spiece::Piece::CONTROL : spiece::Piece::USER_DEFINED;
  }
  const int unknown = unigram.at("unk_id").get<int>();
  for (const nlohmann::json& entry : unigram.at("vocab")) {
    spiece::Piece* piece = model.add_pieces();
    piece->set_piece(entry.at(0).get<std::string>());
    piece->set_score(entry.at(1).get<float>());
    const auto found = added.find(piece->piece());
    if (model.pieces_size() - 1 == unknown) {
      piece->set_type(spiece::Piece::UNKNOWN);
    } else if (found != added.end()) {
      piece->set_type(found->second);
    }
  }
  DPIPE_RETURN_IF_ERROR(ReadNormalizer(json.value("normalizer", nlohmann::json()), &model));
  return model;
}

absl::StatusOr<std::string> ReadTokenizerJson(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, path));
  try {
    const absl::StatusOr<spiece::Model> model = ModelOf(json);
    if (!model.ok()) return InFile(path, model.status());
    return model->SerializeAsString();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a tokenizer of T5: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<T5Tokenizer> T5Tokenizer::Load(const std::string& folder, int max_length) {
  std::string path = folder + "/spiece.model";
  absl::StatusOr<std::string> model = ReadFile(path);
  if (absl::IsNotFound(model.status())) {
    const std::string json = folder + "/tokenizer.json";
    absl::StatusOr<std::string> converted = ReadTokenizerJson(json);
    if (!absl::IsNotFound(converted.status())) {
      path = json;
      model = std::move(converted);
    }
  }
  DPIPE_RETURN_IF_ERROR(model.status());
  DPIPE_ASSIGN_OR_RETURN(const int extra_ids, ReadExtraIds(folder + kConfigFile));
  absl::StatusOr<T5Tokenizer> tokenizer = Create(*model, max_length, extra_ids);
  if (!tokenizer.ok()) return InFile(path, tokenizer.status());
  return tokenizer;
}

absl::StatusOr<T5Tokenizer> T5Tokenizer::Create(absl::string_view bytes, int max_length,
                                                int extra_ids) {
  DPIPE_CHECK_GE(max_length, 1);
  DPIPE_ASSIGN_OR_RETURN(UnigramModel model, UnigramModel::Parse(bytes));
  T5Tokenizer tokenizer(std::move(model));
  tokenizer.max_length_ = max_length;
  tokenizer.vocab_size_ = tokenizer.model_.num_pieces();
  for (const char* token : {"<pad>", "</s>", "<unk>"}) {
    const std::optional<int32_t> id = tokenizer.model_.Find(token);
    if (!id.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("T5's vocabulary has no token ", token));
    }
    tokenizer.special_tokens_.emplace_back(token, *id);
  }
  tokenizer.pad_id_ = tokenizer.special_tokens_[0].second;
  tokenizer.eos_id_ = tokenizer.special_tokens_[1].second;
  for (int i = extra_ids - 1; i >= 0; --i) {
    const std::string token = absl::StrCat("<extra_id_", i, ">");
    const std::optional<int32_t> id = tokenizer.model_.Find(token);
    tokenizer.special_tokens_.emplace_back(token, id.has_value() ? *id : tokenizer.vocab_size_++);
  }
  return tokenizer;
}

std::vector<int32_t> T5Tokenizer::EncodeText(absl::string_view text) const {
  std::vector<int32_t> ids;
  const auto add = [&](absl::string_view plain) {
    const std::vector<int32_t> of_plain = model_.Encode(plain);
    ids.insert(ids.end(), of_plain.begin(), of_plain.end());
  };
  size_t begin = 0;  // of the text after the last special token
  for (size_t i = text.find('<'); i != absl::string_view::npos; i = text.find('<', i)) {
    const absl::string_view rest = text.substr(i);
    const auto found =
        std::find_if(special_tokens_.begin(), special_tokens_.end(),
                     [&](const auto& token) { return absl::StartsWith(rest, token.first); });
    if (found == special_tokens_.end()) {
      ++i;
      continue;
    }
    add(text.substr(begin, i - begin));
    ids.push_back(found->second);
    i += found->first.size();
    begin = i;
  }
  add(text.substr(begin));
  return ids;
}

std::vector<int32_t> T5Tokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> ids = EncodeText(text);
  ids.resize(std::min<size_t>(ids.size(), max_length_ - 1));
  ids.push_back(eos_id_);
  ids.resize(max_length_, pad_id_);
  return ids;
}

absl::StatusOr<int> ReadModelMaxLength(const std::string& folder, int maximum) {
  const std::string path = folder + kConfigFile;
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json value, ReadKey(path, "model_max_length"));
  if (value.is_null()) return maximum;
  // transformers writes 1e30 if there is no maximum.
  if (!value.is_number() || value.get<double>() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": model_max_length is ", ShowJson(value),
                                                   "; expected a number of at least 1"));
  }
  return static_cast<int>(std::min<double>(value.get<double>(), maximum));
}

}  // namespace dpipe
