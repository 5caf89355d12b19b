#include "models/tokenizer/clip_tokenizer.h"

#include <algorithm>
#include <queue>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"
#include "models/tokenizer/byte_symbols.h"
#include "models/tokenizer/pieces.h"

namespace dpipe {
namespace {

// CLIP has 49,408 tokens, multilingual models some 250,000. Keeps a malicious id from making the
// table huge.
constexpr int64_t kMaxVocabSize = 4 << 20;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// A piece's symbols form a linked list, so that joining two takes constant time.
struct Symbol {
  int32_t id;
  int previous;
  int next;
  bool alive = true;
};

// A pair that may be joined. It is stale once either symbol has changed.
struct Candidate {
  int32_t rank;
  int left;
  int32_t left_id;
  int32_t right_id;
  // std::priority_queue returns the maximum: the best rank, then the leftmost pair.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// If several tokens begin at one position, the longest wins.
template <typename Text>
void SortByLength(std::vector<std::pair<Text, int32_t>>& tokens) {
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a < b;
  });
}

// Adds the ids of the `tokens` found in `text`, from left to right. Calls `encode_plain` for the
// text between them.
template <typename Text, typename Token, typename EncodePlain>
void CutAtTokens(Text text, const std::vector<std::pair<Token, int32_t>>& tokens,
                 EncodePlain encode_plain, std::vector<int32_t>& ids) {
  size_t plain_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto found = std::find_if(tokens.begin(), tokens.end(), [&](const auto& token) {
      return text.substr(at, token.first.size()) == token.first;
    });
    if (found == tokens.end()) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain_begin, at - plain_begin));
    ids.push_back(found->second);
    at += found->first.size();
    plain_begin = at;
  }
  encode_plain(text.substr(plain_begin));
}

}  // namespace

absl::StatusOr<ClipTokenizer> ClipTokenizer::Create(absl::string_view vocab_json,
                                                    absl::string_view merges_txt,
                                                    const ClipTokenizerConfig& config) {
  if (config.max_length < 2 || config.max_length > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("model_max_length ", config.max_length, " is not in [2, 65536]"));
  }
  ClipTokenizer tokenizer;
  tokenizer.max_length_ = config.max_length;
  DPIPE_RETURN_IF_ERROR(tokenizer.ReadVocabulary(vocab_json));
  DPIPE_RETURN_IF_ERROR(tokenizer.ReadMerges(merges_txt));
  DPIPE_RETURN_IF_ERROR(tokenizer.FindByteSymbols());
  DPIPE_RETURN_IF_ERROR(tokenizer.AddTokens(config.added_tokens));
  DPIPE_RETURN_IF_ERROR(tokenizer.FindSpecialTokens(config));
  return tokenizer;
}

absl::Status ClipTokenizer::ReadVocabulary(absl::string_view vocab_json) {
  DPIPE_ASSIGN_OR_RETURN(const auto json, ParseJsonObject(vocab_json, "vocab.json"));
  if (json.empty()) return absl::InvalidArgumentError("vocab.json has no tokens");
  for (const auto& [token, id] : json.items()) {
    // The parser makes floats of values beyond int64, so they fail the first test.
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxVocabSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("vocab.json: id ", ShowJson(id), " of \"", ShowText(token),
                       "\" is not an integer in [0, ", kMaxVocabSize, ")"));
    }
    const int32_t value = id.get<int32_t>();
    if (token.empty()) return absl::InvalidArgumentError("vocab.json: an empty token");
    if (value >= vocab_size()) tokens_.resize(value + 1);
    if (!tokens_[value].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("vocab.json: id ", value, " belongs to \"",
                                                     ShowText(tokens_[value]), "\" and to \"",
                                                     ShowText(token), "\""));
    }
    tokens_[value] = token;
    ids_[token] = value;
  }
  return absl::OkStatus();
}

absl::Status ClipTokenizer::ReadMerges(absl::string_view merges_txt) {
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(merges_txt, '\n')) {
    ++line_number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    DPIPE_RETURN_IF_ERROR(AddMerge(line, line_number));
  }
  return absl::OkStatus();
}

absl::Status ClipTokenizer::AddMerge(absl::string_view line, int line_number) {
  const auto error = [line_number](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("merges.txt line ", line_number, ": ", parts...));
  };
  const std::vector<std::string> symbols = absl::StrSplit(line, ' ');
  if (symbols.size() != 2 || symbols[0].empty() || symbols[1].empty()) {
    return error("expected two symbols with a space between, found \"", line.substr(0, 100), "\"");
  }
  const auto left = ids_.find(symbols[0]), right = ids_.find(symbols[1]);
  const auto joined = ids_.find(symbols[0] + symbols[1]);
  if (left == ids_.end()) return error("\"", symbols[0], "\" is not in vocab.json");
  if (right == ids_.end()) return error("\"", symbols[1], "\" is not in vocab.json");
  if (joined == ids_.end()) {
    return error("\"", symbols[0], symbols[1], "\" is not in vocab.json");
  }
  const int32_t rank = static_cast<int32_t>(merges_.size());
  if (!merges_.insert({PairKey(left->second, right->second), {rank, joined->second}}).second) {
    return error("\"", line, "\" is listed twice");
  }
  return absl::OkStatus();
}

absl::Status ClipTokenizer::FindByteSymbols() {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string& symbol = ByteSymbols()[byte];
    for (const bool last : {false, true}) {
      const std::string token = last ? symbol + kEndOfWord : symbol;
      const auto found = ids_.find(token);
      if (found == ids_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("vocab.json: no token \"", token, "\" for byte ", byte));
      }
      (last ? last_byte_ids_ : byte_ids_)[byte] = found->second;
    }
  }
  return absl::OkStatus();
}

absl::Status ClipTokenizer::AddTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    const std::string what = absl::StrCat("the added token \"", token.content, "\"");
    if (token.content.empty() || token.id < 0 || token.id >= kMaxVocabSize) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " of id ", token.id, ": expected a text, and an id in [0, ", kMaxVocabSize, ")"));
    }
    const auto found = ids_.find(token.content);
    if (found != ids_.end() && found->second != token.id) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " has the ids ", token.id, " and ", found->second));
    }
    if (token.id >= vocab_size()) tokens_.resize(token.id + 1);
    if (found == ids_.end() && !tokens_[token.id].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("id ", token.id, " belongs to \"", tokens_[token.id], "\" and to ", what));
    }
    tokens_[token.id] = token.content;
    ids_[token.content] = token.id;
    if (!added_tokens_.insert({token.id, token.content}).second) continue;
    if (token.normalized) {
      normalized_tokens_.push_back({NormalizeText(token.content), token.id});
    } else {
      special_tokens_.push_back({token.content, token.id});
    }
  }
  SortByLength(normalized_tokens_);
  return absl::OkStatus();
}

absl::Status ClipTokenizer::FindSpecialTokens(const ClipTokenizerConfig& config) {
  const std::pair<const std::string*, int32_t*> wanted[] = {
      {&config.bos_token, &bos_id_}, {&config.eos_token, &eos_id_}, {&config.pad_token, &pad_id_}};
  for (const auto& [token, id] : wanted) {
    const auto found = ids_.find(*token);
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("vocab.json: no special token \"", *token, "\""));
    }
    *id = found->second;
    if (added_tokens_.count(found->second) == 0) special_tokens_.push_back({*token, found->second});
  }
  SortByLength(special_tokens_);
  return absl::OkStatus();
}

std::vector<int32_t> ClipTokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> ids = EncodeText(text);
  ids.resize(std::min<size_t>(ids.size(), max_length_ - 2));
  ids.insert(ids.begin(), bos_id_);
  ids.push_back(eos_id_);
  ids.resize(max_length_, pad_id_);
  return ids;
}

std::vector<int32_t> ClipTokenizer::EncodeText(absl::string_view text) const {
  std::vector<int32_t> ids;
  CutAtTokens(
      text, special_tokens_, [&](absl::string_view plain) { EncodePlain(plain, ids); }, ids);
  return ids;
}

void ClipTokenizer::EncodePlain(absl::string_view plain, std::vector<int32_t>& ids) const {
  const std::u32string normalized = NormalizeText(plain);
  const auto encode_pieces = [&](std::u32string_view part) {
    for (const std::string& piece : SplitNormalized(part)) EncodePiece(piece, ids);
  };
  CutAtTokens(std::u32string_view(normalized), normalized_tokens_, encode_pieces, ids);
}

const ClipTokenizer::Merge* ClipTokenizer::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void ClipTokenizer::EncodePiece(absl::string_view piece, std::vector<int32_t>& ids) const {
  const int size = static_cast<int>(piece.size());
  std::vector<Symbol> symbols(size);
  for (int i = 0; i < size; ++i) {
    const auto& byte_ids = i + 1 == size ? last_byte_ids_ : byte_ids_;
    symbols[i] = {byte_ids[static_cast<uint8_t>(piece[i])], i - 1, i + 1 == size ? -1 : i + 1};
  }
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](int left) {
    if (left < 0 || symbols[left].next < 0) return;
    const int32_t left_id = symbols[left].id, right_id = symbols[symbols[left].next].id;
    const Merge* merge = FindMerge(left_id, right_id);
    if (merge != nullptr) candidates.push({merge->rank, left, left_id, right_id});
  };
  for (int i = 0; i < size; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.left];
    if (!left.alive || left.id != best.left_id || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    if (right.id != best.right_id) continue;
    left.id = FindMerge(best.left_id, best.right_id)->id;
    right.alive = false;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.alive) ids.push_back(symbol.id);
  }
}

std::string ClipTokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || id == bos_id_ || id == eos_id_ || id == pad_id_) continue;
    const auto added = added_tokens_.find(id);
    if (added != added_tokens_.end()) {
      absl::StrAppend(&text, added->second, " ");
      continue;
    }
    absl::string_view token = tokens_[id];
    const bool ends_piece = absl::ConsumeSuffix(&token, kEndOfWord);
    absl::StrAppend(&text, BytesOfSymbols(token), ends_piece ? " " : "");
  }
  absl::StripTrailingAsciiWhitespace(&text);
  return text;
}

}  // namespace dpipe
