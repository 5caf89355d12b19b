#include "models/tokenizer/unicode.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/base/text/encoding.h"
#include "utf8proc.h"

namespace dpipe::unicode {
namespace {

std::u32string ComposeCanonically(const std::u32string& text) {
  const std::string utf8 = ToUtf8(text);
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  // No canonical decomposition is longer than four code points.
  std::vector<utf8proc_int32_t> codes(4 * text.size());
  const utf8proc_ssize_t decomposed = utf8proc_decompose(
      reinterpret_cast<const uint8_t*>(utf8.data()), static_cast<ptrdiff_t>(utf8.size()),
      codes.data(), static_cast<ptrdiff_t>(codes.size()), kOptions);
  DPIPE_CHECK(decomposed >= 0 && decomposed <= static_cast<ptrdiff_t>(codes.size())) << decomposed;
  const utf8proc_ssize_t composed = utf8proc_normalize_utf32(codes.data(), decomposed, kOptions);
  return std::u32string(codes.begin(), codes.begin() + composed);
}

}  // namespace

std::u32string FromUtf8(absl::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()),
                                                     static_cast<ptrdiff_t>(text.size()), &code);
    out += length > 0 ? static_cast<char32_t>(code) : kReplacementCodePoint;
    text.remove_prefix(std::max<size_t>(1, length > 0 ? length : 0));
  }
  return out;
}

std::string ToUtf8(const std::u32string& text) {
  std::string out;
  for (const char32_t code : text) AppendUtf8(code, &out);
  return out;
}

bool IsLetter(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsNumber(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsWhitespace(char32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::u32string ToLowercase(const std::u32string& text) {
  std::u32string out;
  for (const char32_t code : text) {
    if (code == 0x130) {  // the only character whose lower case is two
      out += U"i\u0307";
    } else {
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    }
  }
  return out;
}

std::u32string ToNfc(const std::u32string& text) {
  // Nothing below U+0300 changes, which covers most captions.
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x300; })) return text;
  // utf8proc 2.8 drops U+11A7 after a Hangul syllable as if it were a trailing consonant. It is a
  // starter that composes with nothing, so what is before and after it is normalized apart.
  constexpr char32_t kBelowTrailing = 0x11A7;
  std::u32string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBelowTrailing, begin), text.size());
    out += ComposeCanonically(text.substr(begin, end - begin));
    if (end < text.size()) out += kBelowTrailing;
    begin = end + 1;
  }
  return out;
}

}  // namespace dpipe::unicode
