// Text to pieces: what happens before byte-pair encoding, which never looks beyond a piece.
//
// As in CLIP: normal form C, lower case, then the matches, from left to right, of
//   's | 't | 're | 've | 'm | 'll | 'd | letters | one number | a run of anything else but white
//   space
// White space only separates. Source: openai/CLIP simple_tokenizer.py; transformers' CLIPTokenizer.
#ifndef DPIPE_MODELS_TOKENIZER_PIECES_H_
#define DPIPE_MODELS_TOKENIZER_PIECES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// The pieces of UTF-8 `text`, in UTF-8, none empty. "It's 42!" gives it, 's, 4, 2, !
std::vector<std::string> SplitIntoPieces(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_MODELS_TOKENIZER_PIECES_H_
