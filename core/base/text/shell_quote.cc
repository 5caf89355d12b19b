#include "core/base/text/shell_quote.h"

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace dpipe {
namespace {

bool IsPlain(char c) { return absl::ascii_isalnum(c) || std::strchr("%+,-./:=@_", c) != nullptr; }

std::string Quoted(const std::string& word) {
  bool plain = !word.empty();
  for (const char c : word) plain = plain && c != 0 && IsPlain(c);
  if (plain) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string ShellCommand(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    absl::StrAppend(out, Quoted(word));
  });
}

}  // namespace dpipe
