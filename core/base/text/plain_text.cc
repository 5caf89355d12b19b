#include "core/base/text/plain_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/encoding.h"

namespace dpipe {
namespace {

// Text for programs begins with ASCII, which contains zero bytes only in UTF-16 and UTF-32.
bool HasWideCharacters(absl::string_view text) {
  return text.substr(0, 4).find('\0') != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> PlainText(absl::string_view bytes, const std::string& source) {
  std::string text = DecodeText(bytes);
  if (!HasWideCharacters(text)) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      source, " is binary, or UTF-16 or UTF-32 text without a mark; save it as UTF-8 text"));
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(path, max_bytes));
  return PlainText(text, path);
}

}  // namespace dpipe
