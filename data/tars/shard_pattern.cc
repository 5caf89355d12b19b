#include "data/tars/shard_pattern.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

constexpr size_t kMaxNames = 100'000;
constexpr size_t kMaxPatternBytes = 4096;  // limits the nesting depth of braces

bool AllDigits(const std::string& text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the position of the brace that closes the one at `open`, or npos if there is none.
size_t ClosingBrace(const std::string& pattern, size_t open) {
  int depth = 0;
  for (size_t i = open; i < pattern.size(); ++i) {
    if (pattern[i] == '{') ++depth;
    if (pattern[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

// Splits "a,b{c,d}" at the commas that are not inside inner braces.
std::vector<std::string> SplitAlternatives(const std::string& body) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : body) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Expands the text between braces: "000..099" or "a,b".
absl::StatusOr<std::vector<std::string>> Alternatives(const std::string& body,
                                                      const std::string& pattern) {
  const size_t dots = body.find("..");
  const std::string first = body.substr(0, dots);
  if (dots == std::string::npos || !AllDigits(first) || !AllDigits(body.substr(dots + 2))) {
    return SplitAlternatives(body);
  }
  int64_t begin = 0, end = 0;
  if (!absl::SimpleAtoi(first, &begin) || !absl::SimpleAtoi(body.substr(dots + 2), &end) ||
      end < begin || end - begin >= static_cast<int64_t>(kMaxNames)) {
    return absl::InvalidArgumentError(absl::StrCat(
        pattern, ": {", body, "} is reversed or expands to more than ", kMaxNames, " names"));
  }
  std::vector<std::string> numbers;
  for (int64_t i = begin; i <= end; ++i) {
    numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(first.size()), i));
  }
  return numbers;
}

absl::Status Expand(const std::string& prefix, const std::string& rest, const std::string& pattern,
                    std::vector<std::string>* names) {
  const size_t open = rest.find_first_of("{}");
  if (open == std::string::npos) {
    if (names->size() >= kMaxNames) {
      return absl::InvalidArgumentError(
          absl::StrCat(pattern, ": expands to more than ", kMaxNames, " names"));
    }
    names->push_back(prefix + rest);
    return absl::OkStatus();
  }
  const size_t close = rest[open] == '{' ? ClosingBrace(rest, open) : std::string::npos;
  if (close == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(pattern, ": unmatched brace"));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> alternatives,
                         Alternatives(rest.substr(open + 1, close - open - 1), pattern));
  for (const std::string& alternative : alternatives) {
    // An alternative may contain braces.
    DPIPE_RETURN_IF_ERROR(Expand(prefix + rest.substr(0, open),
                                 alternative + rest.substr(close + 1), pattern, names));
  }
  return absl::OkStatus();
}

bool HasWildcard(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a pattern of ", pattern.size(),
                                                   " bytes, more than ", kMaxPatternBytes, ": ",
                                                   pattern.substr(0, 100), "..."));
  }
  std::vector<std::string> names;
  DPIPE_RETURN_IF_ERROR(Expand("", pattern, pattern, &names));
  return names;
}

absl::StatusOr<std::vector<std::string>> FindShards(const std::string& pattern) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandBraces(pattern));
  std::vector<std::string> shards;
  for (const std::string& name : names) {
    if (!HasWildcard(name)) {
      if (access(name.c_str(), F_OK) != 0) {
        return absl::NotFoundError(absl::StrCat(name, ": no such file"));
      }
      shards.push_back(name);
      continue;
    }
    glob_t found = {};
    const int result = glob(name.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (result != 0) return absl::NotFoundError(absl::StrCat(name, ": no file matches"));
    std::sort(matches.begin(), matches.end());
    shards.insert(shards.end(), matches.begin(), matches.end());
  }
  return shards;
}

}  // namespace dpipe
