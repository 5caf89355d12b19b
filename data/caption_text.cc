#include "data/caption_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dpipe {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";  // U+FFFD

// How many bytes the character that begins at text[at] has; 0 where none that is well-formed does
// [the Unicode Standard, table 3-7].
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return 1;
  const size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < count) return 0;
  for (size_t i = at + 1; i < at + count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : count;
}

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

// UTF-16 without its mark [the Unicode Standard, 3.9].
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
      text += kReplacement;
    } else if ((unit(at) & 0xfc00) == 0xd800 && is_low_half(at + 2)) {
      AppendUtf8(0x10000 + ((unit(at) & 0x3ff) << 10) + (unit(at + 2) & 0x3ff), &text);
      at += 2;
    } else if ((unit(at) & 0xf800) == 0xd800) {
      text += kReplacement;
    } else {
      AppendUtf8(unit(at), &text);
    }
  }
  return text;
}

}  // namespace

absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

std::string DecodeText(absl::string_view bytes) {
  if (absl::ConsumePrefix(&bytes, "\xff\xfe")) return FromUtf16(bytes, /*is_big_endian=*/false);
  if (absl::ConsumePrefix(&bytes, "\xfe\xff")) return FromUtf16(bytes, /*is_big_endian=*/true);
  return std::string(WithoutByteOrderMark(bytes));
}

std::string CaptionText(absl::string_view bytes, bool* is_utf8) {
  const std::string decoded = DecodeText(bytes);
  const absl::string_view text = absl::StripAsciiWhitespace(decoded);
  std::string caption;
  for (size_t at = 0; at < text.size();) {
    const size_t count = CharacterBytes(text, at);
    if (count == 0) {
      caption += kReplacement;
    } else if (!absl::StartsWith(text.substr(at), "\r\n")) {
      absl::StrAppend(&caption, text.substr(at, count));
    }
    at += count == 0 ? 1 : count;
  }
  // UTF-16 without a mark is UTF-8 with a NUL beside each ASCII character.
  if (is_utf8 != nullptr) {
    *is_utf8 = !absl::StrContains(caption, kReplacement) && !absl::StrContains(caption, '\0');
  }
  return caption;
}

absl::Status CheckUtf8(absl::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = CharacterBytes(bytes, at);
    if (count == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "not UTF-8: byte ", at + 1, " is 0x",
          absl::Hex(static_cast<uint8_t>(bytes[at]), absl::kZeroPad2), "; save the file as UTF-8"));
    }
    at += count;
  }
  return absl::OkStatus();
}

}  // namespace dpipe
