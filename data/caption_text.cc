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

}  // namespace

absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

std::string CaptionText(absl::string_view bytes) {
  const absl::string_view text = absl::StripAsciiWhitespace(WithoutByteOrderMark(bytes));
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
  return caption;
}

absl::Status CheckUtf8(absl::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = CharacterBytes(bytes, at);
    if (count == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("not UTF-8: byte ", at + 1, " is 0x",
                       absl::Hex(static_cast<uint8_t>(bytes[at]), absl::kZeroPad2)));
    }
    at += count;
  }
  return absl::OkStatus();
}

}  // namespace dpipe
