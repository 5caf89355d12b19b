#include "models/tokenizer/unigram_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/encoding.h"
#include "core/base/text/show.h"
#include "models/tokenizer/sentence_piece.pb.h"

namespace dpipe {
namespace {

constexpr char kSpace[] = "\xe2\x96\x81";  // U+2581
constexpr float kUnknownPenalty = 10;

// Returns the bytes of the first character of normalized text, which is UTF-8.
size_t CharacterBytes(absl::string_view text) {
  const unsigned char first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return std::min(bytes, text.size());
}

absl::Status CheckSettings(const spiece::Model& model) {
  using spiece::TrainerSpec;
  const TrainerSpec& trainer = model.trainer_spec();
  if (trainer.model_type() != TrainerSpec::UNIGRAM) {
    return absl::InvalidArgumentError(
        absl::StrCat("the SentencePiece model is of type ",
                     TrainerSpec::ModelType_Name(trainer.model_type()), "; supported: UNIGRAM"));
  }
  if (trainer.byte_fallback()) {
    return absl::InvalidArgumentError(
        "the SentencePiece model falls back to bytes, which is not supported");
  }
  if (trainer.treat_whitespace_as_suffix()) {
    return absl::InvalidArgumentError(
        "the SentencePiece model treats white space as a suffix, which is not supported");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UnigramModel> UnigramModel::Parse(absl::string_view bytes) {
  spiece::Model file;
  if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      file.pieces_size() == 0) {
    return absl::InvalidArgumentError("not a SentencePiece model");
  }
  DPIPE_RETURN_IF_ERROR(CheckSettings(file));
  UnigramModel model;
  const spiece::NormalizerSpec& normalizer = file.normalizer_spec();
  DPIPE_ASSIGN_OR_RETURN(model.character_map_,
                         CharacterMap::Parse(normalizer.precompiled_charsmap()));
  model.add_prefix_ = normalizer.add_dummy_prefix();
  model.remove_spaces_ = normalizer.remove_extra_whitespaces();
  model.escape_spaces_ = normalizer.escape_whitespaces();
  model.num_pieces_ = file.pieces_size();
  float min_score = std::numeric_limits<float>::max();
  bool has_unknown = false;
  for (int32_t id = 0; id < file.pieces_size(); ++id) {
    const spiece::Piece& piece = file.pieces(id);
    const bool user_defined = piece.type() == spiece::Piece::USER_DEFINED;
    const bool normal = piece.type() == spiece::Piece::NORMAL;
    model.pieces_.push_back(
        {piece.piece(), id, piece.score(), user_defined, normal || user_defined});
    if (piece.type() == spiece::Piece::UNKNOWN) {
      model.unknown_id_ = id;
      has_unknown = true;
    }
    if (normal) {
      min_score = std::min(min_score, piece.score());
      model.max_score_ = std::max(model.max_score_, piece.score());
    }
    if (user_defined) model.has_user_defined_ = true;
  }
  if (!has_unknown) {
    return absl::InvalidArgumentError("the SentencePiece model has no unknown token");
  }
  model.unknown_score_ = min_score - kUnknownPenalty;
  std::sort(model.pieces_.begin(), model.pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.text < b.text; });
  for (size_t i = 1; i < model.pieces_.size(); ++i) {
    if (model.pieces_[i].text == model.pieces_[i - 1].text) {
      return absl::InvalidArgumentError(absl::StrCat("the SentencePiece model has the piece ",
                                                     ShowText(model.pieces_[i].text), " twice"));
    }
  }
  return model;
}

std::optional<int32_t> UnigramModel::Find(absl::string_view piece) const {
  const auto found =
      std::lower_bound(pieces_.begin(), pieces_.end(), piece,
                       [](const Piece& p, absl::string_view text) { return p.text < text; });
  if (found == pieces_.end() || found->text != piece) return std::nullopt;
  return found->id;
}

// Narrows the range of pieces that begin as the text does, byte by byte. std::string compares bytes
// as unsigned, and a piece comes before those that it begins.
template <typename F>
void UnigramModel::ForPrefixes(absl::string_view text, const F& f) const {
  auto begin = pieces_.begin(), end = pieces_.end();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte_at = [depth](const Piece& p) {  // -1: the piece has ended
      return p.text.size() > depth ? static_cast<unsigned char>(p.text[depth]) : -1;
    };
    const int byte = static_cast<unsigned char>(text[depth]);
    begin = std::lower_bound(begin, end, byte,
                             [&](const Piece& p, int value) { return byte_at(p) < value; });
    end = std::upper_bound(begin, end, byte,
                           [&](int value, const Piece& p) { return value < byte_at(p); });
    if (begin == end) return;
    if (begin->text.size() == depth + 1 && begin->matched) f(*begin);
  }
}

size_t UnigramModel::NormalizePrefix(absl::string_view text, absl::string_view* normalized) const {
  size_t bytes = 0;
  if (has_user_defined_) {
    ForPrefixes(text, [&](const Piece& piece) {
      if (piece.user_defined) bytes = piece.text.size();
    });
  }
  if (bytes == 0) {
    const CharacterMap::Match match = character_map_.LongestPrefix(text);
    if (match.length > 0) {
      *normalized = match.replacement;
      return match.length;
    }
    bytes = Utf8CharacterBytes(text);
    if (bytes == 0) {
      *normalized = kReplacementCharacter;
      return 1;
    }
  }
  *normalized = text.substr(0, bytes);
  return bytes;
}

std::string UnigramModel::Normalize(absl::string_view text) const {
  const absl::string_view space = escape_spaces_ ? kSpace : " ";
  std::string result;
  absl::string_view part;
  if (remove_spaces_) {
    while (!text.empty()) {
      const size_t bytes = NormalizePrefix(text, &part);
      if (part != " ") break;
      text.remove_prefix(bytes);
    }
  }
  if (text.empty()) return result;
  if (add_prefix_) absl::StrAppend(&result, space);
  bool after_space = remove_spaces_;
  while (!text.empty()) {
    text.remove_prefix(NormalizePrefix(text, &part));
    while (after_space && absl::ConsumePrefix(&part, " ")) {
    }
    if (part.empty()) continue;
    for (const char c : part) {
      if (c == ' ') {
        absl::StrAppend(&result, space);
      } else {
        result += c;
      }
    }
    after_space = remove_spaces_ && part.back() == ' ';
  }
  while (remove_spaces_ && absl::EndsWith(result, space)) {
    result.resize(result.size() - space.size());
  }
  return result;
}

std::vector<int32_t> UnigramModel::Encode(absl::string_view text) const {
  const std::string normalized = Normalize(text);
  // The best division of the text up to each byte, by its last piece.
  struct Ending {
    int32_t id = 0;
    float score = 0;
    size_t begin = 0;
    bool reached = false;
  };
  std::vector<Ending> best(normalized.size() + 1);
  for (size_t begin = 0; begin < normalized.size();) {
    const absl::string_view rest = absl::string_view(normalized).substr(begin);
    const float until_here = best[begin].score;
    const auto offer = [&](size_t length, int32_t id, float score) {
      Ending& ending = best[begin + length];
      const float total = score + until_here;
      if (ending.reached && total <= ending.score) return;
      ending = {id, total, begin, true};
    };
    const size_t character = CharacterBytes(rest);
    bool character_is_piece = false;
    ForPrefixes(rest, [&](const Piece& piece) {
      const size_t length = piece.text.size();
      // A user-defined piece is preferred to all others.
      const float score =
          piece.user_defined ? static_cast<float>(length) * max_score_ - 0.1f : piece.score;
      offer(length, piece.id, score);
      if (length == character) character_is_piece = true;
    });
    if (!character_is_piece) offer(character, unknown_id_, unknown_score_);
    begin += character;
  }
  std::vector<int32_t> ids;
  for (size_t end = normalized.size(); end > 0; end = best[end].begin) {
    const int32_t id = best[end].id;
    if (id == unknown_id_ && !ids.empty() && ids.back() == unknown_id_) continue;
    ids.push_back(id);
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

}  // namespace dpipe
