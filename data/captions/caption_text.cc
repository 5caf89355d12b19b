#include "data/captions/caption_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/encoding.h"

namespace dpipe {

std::string CaptionText(absl::string_view bytes, bool* is_utf8) {
  const std::string decoded = DecodeText(bytes);
  const absl::string_view text = absl::StripAsciiWhitespace(decoded);
  std::string caption;
  for (size_t at = 0; at < text.size();) {
    const size_t count = Utf8CharacterBytes(text.substr(at));
    if (count == 0) {
      caption += kReplacementCharacter;
    } else if (!absl::StartsWith(text.substr(at), "\r\n")) {
      absl::StrAppend(&caption, text.substr(at, count));
    }
    at += count == 0 ? 1 : count;
  }
  // ASCII text in UTF-16 without a mark is UTF-8 with a NUL beside each character.
  if (is_utf8 != nullptr) {
    *is_utf8 =
        !absl::StrContains(caption, kReplacementCharacter) && !absl::StrContains(caption, '\0');
  }
  return caption;
}

absl::Status CheckUtf8(absl::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = Utf8CharacterBytes(bytes.substr(at));
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
