// A SentencePiece unigram model (Kudo, arXiv 1804.10959), read from a `spiece.model` file.
//
// 1. The text is normalized: the character map (character_map.h) is applied to its longest matches
//    from left to right; runs of spaces become one, spaces at both ends are dropped; a space is put
//    in front; spaces become U+2581. The model's settings may turn parts of this off.
// 2. Of all ways to divide the result into pieces of the vocabulary, the one with the largest sum
// of
//    scores (log-probabilities) is taken. A character that is no piece is the unknown token, with
//    10 less than the smallest score. Adjacent unknown characters become one token.
//
// Own code instead of the SentencePiece library, because Debian's libsentencepiece contains
// another version of protobuf than libprotobuf, under the same symbols: a process that links both
// fails when it starts or crashes. Texts get the same ids (goldens in testdata/).
#ifndef DPIPE_MODELS_TOKENIZER_UNIGRAM_MODEL_H_
#define DPIPE_MODELS_TOKENIZER_UNIGRAM_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "models/tokenizer/character_map.h"

namespace dpipe {

// Immutable and thread-safe.
class UnigramModel {
 public:
  // Parses the bytes of a model file. Returns InvalidArgument if they are not one, or if the model
  // is not a unigram model, falls back to bytes, has no unknown token, or has a piece twice.
  static absl::StatusOr<UnigramModel> Parse(absl::string_view bytes);

  // Returns the ids of a text. Takes O(n) for n bytes, times the length of the longest piece.
  std::vector<int32_t> Encode(absl::string_view text) const;

  std::string Normalize(absl::string_view text) const;

  int num_pieces() const { return static_cast<int>(num_pieces_); }
  // Returns the id of a piece of any type.
  std::optional<int32_t> Find(absl::string_view piece) const;

 private:
  struct Piece {
    std::string text;
    int32_t id;
    float score;
    bool user_defined;
    bool matched;  // in texts
  };

  // Calls f(piece) for each matched piece that begins the text, the shortest first.
  template <typename F>
  void ForPrefixes(absl::string_view text, const F& f) const;
  // Normalizes the beginning of a text; returns the number of bytes it takes.
  size_t NormalizePrefix(absl::string_view text, absl::string_view* normalized) const;

  CharacterMap character_map_;
  std::vector<Piece> pieces_;  // sorted by text; matched and unmatched ones
  size_t num_pieces_ = 0;
  int32_t unknown_id_ = 0;
  float unknown_score_ = 0;
  float max_score_ = 0;
  bool has_user_defined_ = false;
  bool add_prefix_ = true, remove_spaces_ = true, escape_spaces_ = true;
};

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_UNIGRAM_MODEL_H_
