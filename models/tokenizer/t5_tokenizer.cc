#include "models/tokenizer/t5_tokenizer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"

namespace dpipe {
namespace {

constexpr int kMaxExtraIds = 100000;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<int> ReadExtraIds(const std::string& path) {
  const auto text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return 100;
  DPIPE_RETURN_IF_ERROR(text.status());
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json config, ParseJsonObject(*text, path));
  const auto found = config.find("extra_ids");
  if (found == config.end() || found->is_null()) return 100;
  if (!found->is_number_integer() || *found < 0 || *found > kMaxExtraIds) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": extra_ids is ", ShowJson(*found),
                                                   "; expected an integer from 0 to ",
                                                   kMaxExtraIds));
  }
  return found->get<int>();
}

}  // namespace

absl::StatusOr<T5Tokenizer> T5Tokenizer::Load(const std::string& folder) {
  const std::string path = folder + "/spiece.model";
  DPIPE_ASSIGN_OR_RETURN(const std::string model, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(const int extra_ids, ReadExtraIds(folder + "/tokenizer_config.json"));
  absl::StatusOr<T5Tokenizer> tokenizer = Create(model, extra_ids);
  if (!tokenizer.ok()) return InFile(path, tokenizer.status());
  return tokenizer;
}

absl::StatusOr<T5Tokenizer> T5Tokenizer::Create(absl::string_view bytes, int extra_ids) {
  DPIPE_ASSIGN_OR_RETURN(UnigramModel model, UnigramModel::Parse(bytes));
  T5Tokenizer tokenizer(std::move(model));
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

std::vector<int32_t> T5Tokenizer::Encode(absl::string_view text, int max_length) const {
  DPIPE_CHECK_GE(max_length, 1);
  std::vector<int32_t> ids = EncodeText(text);
  ids.resize(std::min<size_t>(ids.size(), max_length - 1));
  ids.push_back(eos_id_);
  ids.resize(max_length, pad_id_);
  return ids;
}

}  // namespace dpipe
