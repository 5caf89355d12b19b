// Converts captions to the token ids that a text encoder reads.
#ifndef DPIPE_MODELS_TOKENIZER_TOKENIZER_H_
#define DPIPE_MODELS_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Returns exactly max_length() ids: the text's with its special tokens (as many as fit), and
  // padding.
  virtual std::vector<int32_t> Encode(absl::string_view text) const = 0;
  // Returns the number of ids of the whole text with its special tokens. If it is above
  // max_length(), Encode cuts the text.
  virtual int NumTokens(absl::string_view text) const = 0;
  // Number of special tokens that Encode adds to every text.
  virtual int num_special_tokens() const = 0;
  virtual int max_length() const = 0;
  virtual int vocab_size() const = 0;  // highest id + 1
};

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_TOKENIZER_H_
