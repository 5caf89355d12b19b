#include "core/command_line/word_wrap.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr size_t kScreenWidth = 100;

}  // namespace

std::string WrapWords(const std::string& head, size_t indent, const std::string& text) {
  std::string line = head;
  std::string result;
  if (head.size() + 1 > indent) {
    absl::StrAppend(&result, line, "\n");
    line.clear();
  }
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() > indent && line.size() + 1 + word.size() > kScreenWidth) {
      absl::StrAppend(&result, line, "\n");
      line.clear();
    }
    line.resize(std::max(line.size() + 1, indent), ' ');
    line += word;
  }
  return absl::StrCat(result, line, "\n");
}

}  // namespace dpipe
