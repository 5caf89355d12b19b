#include "core/base/text/show.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text/encoding.h"

namespace dpipe {

size_t Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text.size();
  const auto continues = [&text](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && continues(end)) --end;
  return continues(end) || Utf8CharacterBytes(text.substr(end)) == 0 ? max_bytes : end;
}

std::string ShowText(absl::string_view text, size_t max_bytes) {
  std::string shown;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = Utf8CharacterBytes(text.substr(at));
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
