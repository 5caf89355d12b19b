// T5's tokenizer: a SentencePiece unigram model and special tokens, as in transformers'
// T5Tokenizer.
#ifndef DPIPE_MODELS_TOKENIZER_T5_TOKENIZER_H_
#define DPIPE_MODELS_TOKENIZER_T5_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/unigram_model.h"

namespace dpipe {

// Immutable and thread-safe.
class T5Tokenizer : public Tokenizer {
 public:
  // Reads a tokenizer folder for texts of max_length >= 1 ids. The pipelines of diffusers use 256
  // (Stable Diffusion 3, FLUX.1 schnell) or 512 (FLUX.1 dev).
  //
  // - The vocabulary comes from spiece.model. If there is none, it comes from tokenizer.json, the
  //   only file with it that transformers 5 writes.
  // - The number of extra ids comes from `extra_ids` of tokenizer_config.json (default 100).
  //
  // Returns NotFound, or InvalidArgument with the file and the problem.
  static absl::StatusOr<T5Tokenizer> Load(const std::string& folder, int max_length);

  // The same from the bytes of a model file. The tokens <extra_id_0>, <extra_id_1>, ... that are no
  // pieces of the model come after its pieces, in reverse order. Returns InvalidArgument if
  // UnigramModel::Parse does, or if a token <pad>, </s> or <unk> is missing.
  static absl::StatusOr<T5Tokenizer> Create(absl::string_view model, int max_length,
                                            int extra_ids = 100);

  // The text's ids (as many as fit), the end, padding.
  std::vector<int32_t> Encode(absl::string_view text) const override;

  // Returns all ids of the text, without the end and padding. Special tokens within it are cut out
  // first; the texts between them are encoded on their own.
  std::vector<int32_t> EncodeText(absl::string_view text) const;

  // Returns the number of ids of the whole text with its end.
  int NumTokens(absl::string_view text) const override {
    return static_cast<int>(EncodeText(text).size()) + num_special_tokens();
  }
  int num_special_tokens() const override { return 1; }  // the end

  int max_length() const override { return max_length_; }
  int vocab_size() const override { return vocab_size_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t pad_id() const { return pad_id_; }

 private:
  explicit T5Tokenizer(UnigramModel model) : model_(std::move(model)) {}

  UnigramModel model_;
  std::vector<std::pair<std::string, int32_t>> special_tokens_;  // all begin with "<"
  int max_length_ = 0;
  int vocab_size_ = 0;
  int32_t eos_id_ = 0;
  int32_t pad_id_ = 0;
};

// Returns `model_max_length` of the tokenizer_config.json in a tokenizer folder, or `maximum` if
// that is smaller or there is no such key or file. Returns InvalidArgument if it is not a number of
// at least 1.
absl::StatusOr<int> ReadModelMaxLength(const std::string& folder, int maximum);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_T5_TOKENIZER_H_
