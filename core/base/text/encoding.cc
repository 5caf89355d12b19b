#include "core/base/text/encoding.h"

#include <cstdint>

#include "absl/strings/strip.h"
#include "utf8proc.h"

namespace dpipe {
namespace {

// Converts UTF-16 without its mark [the Unicode Standard, 3.9].
std::string FromUtf16(absl::string_view bytes, bool is_big_endian) {
  const auto unit = [&](size_t at) -> char32_t {
    const auto first = static_cast<uint8_t>(bytes[at]),
               second = static_cast<uint8_t>(bytes[at + 1]);
    return is_big_endian ? first << 8 | second : second << 8 | first;
  };
  const auto is_low_half = [&](size_t at) {
    return bytes.size() - at >= 2 && (unit(at) & 0xfc00) == 0xdc00;
  };
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 2) {
    if (bytes.size() - at < 2) {
      text += kReplacementCharacter;
    } else if ((unit(at) & 0xfc00) == 0xd800 && is_low_half(at + 2)) {
      AppendUtf8(0x10000 + ((unit(at) & 0x3ff) << 10) + (unit(at + 2) & 0x3ff), &text);
      at += 2;
    } else if ((unit(at) & 0xf800) == 0xd800) {
      text += kReplacementCharacter;
    } else {
      AppendUtf8(unit(at), &text);
    }
  }
  return text;
}

}  // namespace

void AppendUtf8(char32_t code, std::string* text) {
  uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text->append(reinterpret_cast<const char*>(bytes), length);
}

size_t Utf8CharacterBytes(absl::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()),
                                                   static_cast<ptrdiff_t>(text.size()), &code);
  return length > 0 ? length : 0;
}

absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

std::string DecodeText(absl::string_view bytes) {
  if (absl::ConsumePrefix(&bytes, "\xff\xfe")) return FromUtf16(bytes, /*is_big_endian=*/false);
  if (absl::ConsumePrefix(&bytes, "\xfe\xff")) return FromUtf16(bytes, /*is_big_endian=*/true);
  return std::string(WithoutByteOrderMark(bytes));
}

}  // namespace dpipe
