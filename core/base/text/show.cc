#include "core/base/text/show.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

// Returns the length in bytes of the UTF-8 character that `text` begins with; 0 if it begins with
// none (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

size_t Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text.size();
  const auto continues = [&text](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && continues(end)) --end;
  return continues(end) || CharacterLength(text.substr(end)) == 0 ? max_bytes : end;
}

std::string ShowText(absl::string_view text, size_t max_bytes) {
  std::string shown;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = CharacterLength(text.substr(at));
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    std::string next;
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      next = byte == '\n'   ? "\\n"
             : byte == '\t' ? "\\t"
             : byte == '\r' ? "\\r"
                            : absl::StrFormat("\\x%02x", byte);
    } else {
      next = std::string(text.substr(at, length));
    }
    if (shown.size() + next.size() > max_bytes) return shown + "...";
    shown += next;
    at += std::max<size_t>(length, 1);
  }
  return shown;
}

std::string ShowNames(const std::vector<std::string>& names, size_t max_names) {
  std::string shown;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string next = absl::StrCat(i == 0 ? "" : ", ", ShowText(names[i]));
    if (i == max_names || (i > 0 && shown.size() + next.size() > kMaxListBytes)) {
      return absl::StrCat(shown, " and ", names.size() - i, " more");
    }
    shown += next;
  }
  return shown;
}

}  // namespace dpipe
