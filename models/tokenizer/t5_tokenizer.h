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
#include "models/tokenizer/unigram_model.h"

namespace dpipe {

// Immutable and thread-safe.
class T5Tokenizer {
 public:
  // Reads `spiece.model` and, if there is one, `extra_ids` of tokenizer_config.json (default 100)
  // in a tokenizer folder. Returns NotFound, or InvalidArgument with the file and the problem.
  static absl::StatusOr<T5Tokenizer> Load(const std::string& folder);

  // The same from the bytes of a model file. The tokens <extra_id_0>, <extra_id_1>, ... that are no
  // pieces of the model come after its pieces, in reverse order. Returns InvalidArgument if
  // UnigramModel::Parse does, or if a token <pad>, </s> or <unk> is missing.
  static absl::StatusOr<T5Tokenizer> Create(absl::string_view model, int extra_ids = 100);

  // Returns exactly max_length >= 1 ids: the text's (as many as fit), the end, padding. The
  // pipelines of diffusers use 256 (Stable Diffusion 3, FLUX.1 schnell) or 512 (FLUX.1 dev) tokens.
  std::vector<int32_t> Encode(absl::string_view text, int max_length) const;

  // Returns all ids of the text, without the end and padding. Special tokens within it are cut out
  // first; the texts between them are encoded on their own.
  std::vector<int32_t> EncodeText(absl::string_view text) const;

  // Returns the number of ids of the whole text with its end.
  int NumTokens(absl::string_view text) const {
    return static_cast<int>(EncodeText(text).size()) + 1;
  }

  int vocab_size() const { return vocab_size_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t pad_id() const { return pad_id_; }

 private:
  explicit T5Tokenizer(UnigramModel model) : model_(std::move(model)) {}

  UnigramModel model_;
  std::vector<std::pair<std::string, int32_t>> special_tokens_;  // all begin with "<"
  int vocab_size_ = 0;
  int32_t eos_id_ = 0;
  int32_t pad_id_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_T5_TOKENIZER_H_
