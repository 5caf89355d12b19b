// Code points: UTF-8, classes, lower case and normal form C, as tokenizers need them, by utf8proc.
// Characters newer than the library's Unicode version are neither letters nor numbers.
#ifndef DPIPE_MODELS_TOKENIZER_UNICODE_H_
#define DPIPE_MODELS_TOKENIZER_UNICODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::unicode {

// Returns the code points of `text`, with U+FFFD for each byte that is not part of well-formed
// UTF-8.
std::u32string FromUtf8(absl::string_view text);
std::string ToUtf8(const std::u32string& text);

bool IsLetter(char32_t code);      // general categories L*
bool IsNumber(char32_t code);      // general categories N*
bool IsWhitespace(char32_t code);  // property White_Space

// Maps each character by itself, without regard to its neighbours (a final sigma becomes U+03C3).
std::u32string ToLowercase(const std::u32string& text);

// Returns normal form C: canonical decomposition, ordering of marks, canonical composition.
std::u32string ToNfc(const std::u32string& text);

}  // namespace dpipe::unicode

#endif  // DPIPE_MODELS_TOKENIZER_UNICODE_H_
