// Splits text into pieces. Byte-pair encoding, the next step, never looks beyond a piece.
//
// As in CLIP: normal form C, lower case, then the matches, from left to right, of
//   's | 't | 're | 've | 'm | 'll | 'd | letters | one number | a run of anything else but white
//   space
// White space only separates. Source: openai/CLIP simple_tokenizer.py; transformers' CLIPTokenizer.
#ifndef DPIPE_MODELS_TOKENIZER_PIECES_H_
#define DPIPE_MODELS_TOKENIZER_PIECES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Returns UTF-8 `text` in normal form C and lower case, with each run of white space as one space.
std::u32string NormalizeText(absl::string_view text);

// Returns the pieces of a normalized text, in UTF-8 and non-empty.
std::vector<std::string> SplitNormalized(std::u32string_view text);

// Normalizes and splits: "It's 42!" gives it, 's, 4, 2, !
std::vector<std::string> SplitIntoPieces(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_PIECES_H_
