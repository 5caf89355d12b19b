// Code points: UTF-8, classes, lower case and normal form C, as far as the tokenizer needs them.
//
// Source: the Unicode Standard, sections 3.11-3.12 (normal forms, Hangul), and its character
// database (unicode_tables.h). Characters newer than that database count as neither letter nor
// number.
#ifndef DPIPE_MODELS_TOKENIZER_UNICODE_H_
#define DPIPE_MODELS_TOKENIZER_UNICODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::unicode {

// Replaces each byte that is not part of well-formed UTF-8 by U+FFFD.
std::u32string FromUtf8(absl::string_view text);
std::string ToUtf8(const std::u32string& text);
void AppendUtf8(char32_t code, std::string& out);

bool IsLetter(char32_t code);      // general categories L*
bool IsNumber(char32_t code);      // general categories N*
bool IsWhitespace(char32_t code);  // property White_Space

// Converts each character independently of its neighbours (a final sigma becomes U+03C3).
std::u32string ToLowercase(const std::u32string& text);

// Converts to normal form C: canonical decomposition, ordering of marks, canonical composition.
std::u32string ToNfc(const std::u32string& text);

}  // namespace dpipe::unicode

#endif  // DPIPE_MODELS_TOKENIZER_UNICODE_H_
