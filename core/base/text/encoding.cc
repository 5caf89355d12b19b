#include "core/base/text/encoding.h"

#include <cstdint>

#include "absl/strings/strip.h"

namespace dpipe {
namespace {

void AppendUtf8(char32_t character, std::string* text) {
  const auto append = [text](char32_t byte) { *text += static_cast<char>(byte); };
  if (character < 0x80) return append(character);
  const auto rest = [&](int shift) { append(0x80 | ((character >> shift) & 0x3f)); };
  if (character < 0x800) {
    append(0xc0 | character >> 6);
  } else if (character < 0x10000) {
    append(0xe0 | character >> 12);
    rest(6);
  } else {
    append(0xf0 | character >> 18);
    rest(12);
    rest(6);
  }
  rest(0);
}

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

size_t Utf8CharacterBytes(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < count) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : count;
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
