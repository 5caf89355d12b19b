#include "core/base/files/local_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/shell_quote.h"
#include "core/base/text/show.h"

namespace dpipe {
namespace {

bool Exists(const std::string& given) {
  std::error_code error;
  return std::filesystem::exists(UserPath(given), error);
}

// True for the user and repository names that the hub allows.
bool IsHubWord(absl::string_view word) {
  return !word.empty() && absl::ascii_isalnum(word[0]) &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

// Returns "user/name" from a URL of the hub, or "" for other URLs.
std::string NameInUrl(absl::string_view url) {
  if (!absl::ConsumePrefix(&url, "https://huggingface.co/") &&
      !absl::ConsumePrefix(&url, "hf://")) {
    return "";
  }
  absl::ConsumePrefix(&url, "datasets/");
  const std::vector<std::string> words = absl::StrSplit(url, '/');
  return words.size() >= 2 && IsHubWord(words[0]) && IsHubWord(words[1])
             ? absl::StrCat(words[0], "/", words[1])
             : "";
}

}  // namespace

absl::Status CheckIsLocal(const std::string& flag, const std::string& given, HubKind kind) {
  const bool is_remote = absl::StrContains(given, "://") || absl::StartsWith(given, "pipe:");
  std::string name;
  if (is_remote) {
    name = NameInUrl(given);
  } else {
    const std::vector<std::string> words = absl::StrSplit(given, '/');
    const bool is_name = words.size() == 2 && IsHubWord(words[0]) && IsHubWord(words[1]);
    if (!is_name || Exists(given) || Exists(words[0])) return absl::OkStatus();
    name = given;
  }
  const std::string what =
      absl::StrCat("--", flag, "=", ShowText(given), is_remote ? ": " : ": no such path, and ",
                   "nothing is downloaded automatically; download it first");
  if (name.empty()) {
    return absl::NotFoundError(absl::StrCat(what, " and give the path on this machine"));
  }
  const std::string folder = name.substr(name.find('/') + 1);
  std::vector<std::string> command = {"huggingface-cli", "download", name, "--local-dir", folder};
  if (kind == HubKind::kDataset) command.insert(command.begin() + 3, {"--repo-type", "dataset"});
  return absl::NotFoundError(
      absl::StrCat(what, ", for example: ", ShellCommand(command), "; then --", flag, "=", folder));
}

}  // namespace dpipe
