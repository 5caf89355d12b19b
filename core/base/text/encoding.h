// UTF-8, and the UTF-16 text that Windows editors write.
#ifndef DPIPE_CORE_BASE_TEXT_ENCODING_H_
#define DPIPE_CORE_BASE_TEXT_ENCODING_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// U+FFFD, which replaces bytes that cannot be decoded, as a code point and in UTF-8.
inline constexpr char32_t kReplacementCodePoint = 0xFFFD;
inline constexpr char kReplacementCharacter[] = "\xef\xbf\xbd";

// Appends the UTF-8 of a code point.
void AppendUtf8(char32_t code, std::string* text);

// Returns the length of the first character of `text`, which must not be empty. Returns 0 if its
// first bytes are not well-formed UTF-8 [the Unicode Standard, table 3-7].
size_t Utf8CharacterBytes(absl::string_view text);

// Returns `text` without the byte-order mark that Windows editors put at the start of UTF-8 text.
absl::string_view WithoutByteOrderMark(absl::string_view text);

// Returns a text file's content without its byte-order mark. Converts UTF-16 to UTF-8 if the mark
// is one of UTF-16 (Notepad, PowerShell); half of a surrogate pair becomes U+FFFD. Returns other
// bytes unchanged.
std::string DecodeText(absl::string_view bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_ENCODING_H_
