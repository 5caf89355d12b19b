#include "core/base/text/plain_text.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dpipe {
namespace {

constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr absl::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};  // also begins UTF-32's

// ASCII, which text for programs begins with, has zeros in these encodings, and nowhere else.
bool HasWideCharacters(absl::string_view text) {
  for (const absl::string_view mark : kUtf16Marks) {
    if (absl::StartsWith(text, mark)) return true;
  }
  return text.substr(0, 4).find('\0') != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> PlainText(std::string text, const std::string& source) {
  if (HasWideCharacters(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is UTF-16 or UTF-32 text, or binary; save it as UTF-8 text"));
  }
  if (absl::StartsWith(text, kUtf8Mark)) text.erase(0, kUtf8Mark.size());
  return text;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  DPIPE_ASSIGN_OR_RETURN(std::string text, ReadFileOrPipe(path, max_bytes));
  return PlainText(std::move(text), path);
}

}  // namespace dpipe
