// CLIP's tokenizer: converts captions to token ids by byte-level byte-pair encoding.
//
// 1. A text is cut at special tokens (<|startoftext|>, <|endoftext|>, the padding token) and at
//    tokens added to the vocabulary, such as those of textual inversion.
// 2. The text in between is split into pieces (pieces.h).
// 3. Each piece's bytes become symbols, the last one with </w>.
// 4. The adjacent pair with the best rank in merges.txt is joined until no such pair is left.
//
// Agrees with the CLIPTokenizer of transformers 5 (goldens in testdata/), within the limits stated
// in unicode.h. OpenAI's, and that of transformers 4 with ftfy, first replace curly quotes, HTML
// entities, ligatures and full-width letters by plain characters; this one does not.
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
#include "models/tokenizer/tokenizer.h"

namespace dpipe {

// A token that is matched as a whole before a text is split into pieces.
struct AddedToken {
  std::string content;
  int32_t id = 0;  // row of the text encoder's embedding
  // If true, matched in the text as pieces.h normalizes it, so that <Cat> matches <CAT>; otherwise
  // in the unchanged text. Normalized tokens are matched in the text between the others.
  bool normalized = false;
};

// Settings from the files beside vocab.json and merges.txt.
struct ClipTokenizerConfig {
  std::string bos_token = "<|startoftext|>";
  std::string eos_token = "<|endoftext|>";
  std::string pad_token = "<|endoftext|>";
  int max_length = 77;  // maximum tokens, including start and end; in [2, 65536]
  // Need not include the tokens above.
  std::vector<AddedToken> added_tokens;
};

// Immutable and thread-safe.
class ClipTokenizer : public Tokenizer {
 public:
  // Reads a tokenizer folder.
  //
  // - The vocabulary comes from vocab.json and merges.txt. If there is no vocab.json, it comes from
  //   tokenizer.json, the only file with it that transformers 5 writes.
  // - Added tokens come from `added_tokens_decoder` of tokenizer_config.json, as in transformers.
  //   If this is missing, they come from added_tokens.json and tokenizer.json, and
  //   special_tokens_map.json overrides tokenizer_config.json.
  // - `lstrip` and `rstrip` of added tokens have no effect, because white space beside a token
  //   means nothing to CLIP. `single_word` is not supported.
  // - Ids are those of the files. (transformers 5 renumbers added tokens, which differs only if
  //   their ids have gaps.)
  //
  // Returns NotFound, or InvalidArgument with the file, the line or entry, and the problem.
  static absl::StatusOr<ClipTokenizer> Load(const std::string& folder);

  // The same from the contents of the files.
  static absl::StatusOr<ClipTokenizer> Create(absl::string_view vocab_json,
                                              absl::string_view merges_txt,
                                              const ClipTokenizerConfig& config);

  // Start, the text's ids (as many as fit), end, padding.
  std::vector<int32_t> Encode(absl::string_view text) const override;

  // Returns all ids of the text, without start, end and padding. Takes O(n log n) for n bytes, for
  // pieces of any length.
  std::vector<int32_t> EncodeText(absl::string_view text) const;

  int NumTokens(absl::string_view text) const override {
    return static_cast<int>(EncodeText(text).size()) + num_special_tokens();
  }
  int num_special_tokens() const override { return 2; }  // start and end

  // Returns text in lower case with single spaces between pieces. Added tokens are as they were
  // added. Start, end, padding and ids outside the vocabulary are left out.
  std::string Decode(const std::vector<int32_t>& ids) const;

  int vocab_size() const override { return static_cast<int>(tokens_.size()); }
  int max_length() const override { return max_length_; }
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
  // Encodes a text that contains no token to be matched unchanged.
  void EncodePlain(absl::string_view plain, std::vector<int32_t>& ids) const;
  void EncodePiece(absl::string_view piece, std::vector<int32_t>& ids) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;

  std::vector<std::string> tokens_;  // by id; empty if no token has the id
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_ = {};
  std::array<int32_t, 256> last_byte_ids_ = {};  // with </w>
  // Matched in the unchanged text, and in the normalized one; with their ids, longest first.
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
