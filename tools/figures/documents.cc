#include "tools/figures/documents.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dpipe {

absl::StatusOr<std::vector<std::string>> FindDocuments(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(absl::StrCat(root, "/README.md"), error)) {
    return absl::NotFoundError(
        absl::StrCat(root, " has no README.md; --root is the folder of the repository"));
  }
  std::vector<std::string> found = {"README.md"};
  for (const char* folder : {"bench/results", "docs"}) {
    // Runfiles are links, which are followed.
    fs::recursive_directory_iterator entries(
        absl::StrCat(root, "/", folder), fs::directory_options::follow_directory_symlink, error);
    for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
      if (entries->path().extension() == ".md") {
        found.push_back(fs::path(entries->path()).lexically_relative(root).string());
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return absl::InternalError(absl::StrCat(root, "/", folder, ": ", error.message()));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string DifferingLine(absl::string_view text, absl::string_view computed) {
  const std::vector<absl::string_view> before = absl::StrSplit(text, '\n');
  const std::vector<absl::string_view> after = absl::StrSplit(computed, '\n');
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const absl::string_view a = i < before.size() ? before[i] : "";
    const absl::string_view b = i < after.size() ? after[i] : "";
    if (a != b) return absl::StrCat("line ", i + 1, ": '", a, "', computed: '", b, "'");
  }
  return "";
}

std::string UntracedFigure(absl::string_view markdown) {
  // Replaces what is hidden or code by its line ends, so that lines keep their numbers.
  std::string text(markdown);
  const auto hide = [&text](const std::string& from, const std::string& to) {
    size_t begin = 0;
    while ((begin = text.find(from, begin)) != std::string::npos) {
      const size_t end = text.find(to, begin + from.size());
      if (end == std::string::npos) return;
      const auto first = text.begin() + begin, last = text.begin() + end + to.size();
      const std::string lines(std::count(first, last, '\n'), '\n');
      text.replace(first, last, lines);
    }
  };
  hide("<!--= ", "<!--/-->");
  hide("<!--", "-->");
  hide("```", "```");
  hide("`", "`");
  hide("](", ")");
  const std::regex decimal("(^|[^A-Za-z0-9_.])([0-9]+\\.[0-9]+)(?!\\.?[0-9])");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (absl::StartsWith(lines[i], "    ") || !std::regex_search(lines[i], match, decimal))
      continue;
    return absl::StrCat("line ", i + 1, ": ", match[2].str(), " is not computed from a raw file");
  }
  return "";
}

int CountWords(absl::string_view markdown) {
  std::string seen;
  while (true) {
    const size_t begin = markdown.find("<!--");
    absl::StrAppend(&seen, markdown.substr(0, begin));
    if (begin == absl::string_view::npos) break;
    const size_t end = markdown.find("-->", begin);
    if (end == absl::string_view::npos) break;
    markdown.remove_prefix(end + 3);
  }
  const std::vector<std::string> words = absl::StrSplit(seen, absl::ByAnyChar(" \n\t"));
  return static_cast<int>(std::count_if(words.begin(), words.end(), [](const std::string& word) {
    return std::any_of(word.begin(), word.end(), [](char c) { return absl::ascii_isalnum(c); });
  }));
}

}  // namespace dpipe
