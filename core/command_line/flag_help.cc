#include "core/command_line/flag_help.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/command_line/flag_range.h"

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

namespace {

using gflags::CommandLineFlagInfo;

// gflags writes 17 digits of a double.
std::string DefaultOf(const CommandLineFlagInfo& flag) {
  double value;
  const bool is_double = flag.type == "double" && absl::SimpleAtod(flag.default_value, &value);
  return is_double ? absl::StrCat(value) : flag.default_value;
}

std::string FlagHelp(const CommandLineFlagInfo& flag) {
  constexpr size_t kIndent = 28;
  const bool is_empty = flag.type == "string" && flag.default_value.empty();
  const std::string other = OtherName(flag.name);
  return WrapWords(
      absl::StrCat("  --", flag.name, is_empty ? "" : absl::StrCat("=", DefaultOf(flag))), kIndent,
      absl::StrCat(flag.description, other.empty() ? "" : " [--" + other + "]"));
}

}  // namespace

std::string HelpText(const Command& command) {
  std::map<std::string, CommandLineFlagInfo> left;
  for (const CommandLineFlagInfo& flag : ProgramFlags()) left[flag.name] = flag;
  std::string text = command.usage;
  if (!absl::EndsWith(text, "\n")) text += "\n";
  const auto add = [&](const FlagGroup& group) {
    if (group.flags.empty()) return;
    absl::StrAppend(&text, "\n", group.title, ":\n");
    for (const std::string& name : group.flags) {
      DPIPE_CHECK(left.count(name) > 0)
          << "flag --" << name << " does not exist, or is in two groups";
      text += FlagHelp(left[name]);
      left.erase(name);
    }
  };
  const std::vector<std::string>& most_used = command.most_used;
  add({kMostUsed, most_used});
  for (FlagGroup group : command.groups) {
    auto& flags = group.flags;
    flags.erase(std::remove_if(flags.begin(), flags.end(),
                               [&](const std::string& name) {
                                 return std::find(most_used.begin(), most_used.end(), name) !=
                                        most_used.end();
                               }),
                flags.end());
    add(group);
  }
  if (!left.empty()) text += command.groups.empty() ? "\nFlags:\n" : "\nOther flags:\n";
  for (const auto& [name, flag] : left) text += FlagHelp(flag);
  return text;
}

}  // namespace dpipe
