// CLIP's tokenizer: captions to token ids, by byte-level byte-pair encoding.
//
// A text is cut at special tokens (<|startoftext|>, <|endoftext|>, the padding token) and at tokens
// that were added to the vocabulary (those of textual inversion, say), what is between is split
// into pieces (pieces.h), each piece's bytes become symbols, the last one with </w>, and the pair
// of neighbours with the best rank in merges.txt is joined until none is left.
//
// Agrees with the CLIPTokenizer of transformers 5 (goldens in testdata/), within the limits that
// unicode.h states. That of transformers 4 with ftfy, as OpenAI's, first replaces curly quotes,
// HTML entities, ligatures and full-width letters by plain characters, which is not done here.
#ifndef DPIPE_MODELS_TOKENIZER_CLIP_TOKENIZER_H_
#define DPIPE_MODELS_TOKENIZER_CLIP_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// A token that is found as a whole, before a text is split into pieces.
struct AddedToken {
  std::string content;
  int32_t id = 0;  // the row of the text encoder's embedding
  // Looked for in the text as pieces.h normalizes it, so that <Cat> is found in <CAT>, or else in
  // the text as it is. The first kind is looked for in what the second has left.
  bool normalized = false;
};

// What the files beside vocab.json and merges.txt say.
struct ClipTokenizerConfig {
  std::string bos_token = "<|startoftext|>";
  std::string eos_token = "<|endoftext|>";
  std::string pad_token = "<|endoftext|>";
  int max_length = 77;  // tokens, with the start and end tokens; in [2, 65536]
  // Those above need not be among them.
  std::vector<AddedToken> added_tokens;
};

// Immutable, so any number of threads may use one.
class ClipTokenizer {
 public:
  // Reads vocab.json and merges.txt, or, where there is no vocab.json, the vocabulary and merges of
  // tokenizer.json, which is all that transformers 5 writes. As in transformers, the added tokens
  // are those of tokenizer_config.json's `added_tokens_decoder`; where it has none, they are those
  // of added_tokens.json and tokenizer.json, and special_tokens_map.json overrides
  // tokenizer_config.json. White space beside an added token means nothing to CLIP, and so its
  // `lstrip` and `rstrip` mean nothing; `single_word` is not supported. Ids are the files'
  // (transformers 5 numbers added tokens anew, which differs only where they have gaps).
  // NotFound, or InvalidArgument that names the file, the line or entry, and what is wrong with it.
  static absl::StatusOr<ClipTokenizer> Load(const std::string& folder);

  // The same from the files' contents.
  static absl::StatusOr<ClipTokenizer> Create(absl::string_view vocab_json,
                                              absl::string_view merges_txt,
                                              const ClipTokenizerConfig& config);

  // Exactly max_length() ids: start, the text's (as many as fit), end, padding.
  std::vector<int32_t> Encode(absl::string_view text) const;

  // The text's ids alone: all of them, without start, end and padding.
  // Takes O(n log n) for n bytes, however long a piece is.
  std::vector<int32_t> EncodeText(absl::string_view text) const;

  // The number of ids of all of the text with its start and end: Encode cuts a text for which this
  // is above max_length().
  int NumTokens(absl::string_view text) const {
    return static_cast<int>(EncodeText(text).size()) + 2;
  }

  // Text again, in lower case with single spaces between pieces, and added tokens as they were
  // added; start, end and padding are left out, and so are ids that the vocabulary does not have.
  std::string Decode(const std::vector<int32_t>& ids) const;

  int vocab_size() const { return static_cast<int>(tokens_.size()); }  // highest id + 1
  int max_length() const { return max_length_; }
  int32_t bos_id() const { return bos_id_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t pad_id() const { return pad_id_; }

 private:
  ClipTokenizer() = default;

  struct Merge {
    int32_t rank;
    int32_t id;  // of the joined symbol
  };

  absl::Status ReadVocabulary(absl::string_view vocab_json);
  absl::Status ReadMerges(absl::string_view merges_txt);
  absl::Status AddMerge(absl::string_view line, int line_number);
  absl::Status FindByteSymbols();
  absl::Status AddTokens(const std::vector<AddedToken>& tokens);
  absl::Status FindSpecialTokens(const ClipTokenizerConfig& config);
  // Of a text without tokens that are looked for in it as it is.
  void EncodePlain(absl::string_view plain, std::vector<int32_t>& ids) const;
  void EncodePiece(absl::string_view piece, std::vector<int32_t>& ids) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;

  std::vector<std::string> tokens_;  // by id; empty where no token has the id
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_ = {};
  std::array<int32_t, 256> last_byte_ids_ = {};  // with </w>
  // With their ids, the longest first: what is looked for in the text as it is, and normalized.
  std::vector<std::pair<std::string, int32_t>> special_tokens_;
  std::vector<std::pair<std::u32string, int32_t>> normalized_tokens_;
  std::unordered_map<int32_t, std::string> added_tokens_;
  int max_length_ = 0;
  int32_t bos_id_ = 0;
  int32_t eos_id_ = 0;
  int32_t pad_id_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_CLIP_TOKENIZER_H_
