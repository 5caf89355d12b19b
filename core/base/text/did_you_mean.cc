#include "core/base/text/did_you_mean.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// A group may be large, and longer lists are not helpful suggestions.
constexpr size_t kMaxSuggestions = 4;

bool IsPartOfPath(const std::string& part, const std::string& path) {
  return absl::EndsWith(path, "." + part) || absl::StartsWith(path, part + ".") ||
         absl::StrContains(path, "." + part + ".");
}

std::vector<std::string> NearestNames(const std::string& name,
                                      const std::vector<std::string>& candidates) {
  std::vector<std::string> nearest;
  // A quarter of the characters may be wrong, but always at least one.
  size_t max_distance = std::max<size_t>(1, name.size() / 4);
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    // A name that would have to be replaced as a whole is not near.
    if (distance > max_distance || distance >= name.size()) continue;
    if (distance < max_distance) nearest.clear();
    max_distance = distance;
    nearest.push_back(candidate);
  }
  return nearest;
}

}  // namespace

size_t EditDistance(const std::string& a, const std::string& b) {
  // rows[i][j] is the distance from the first i characters of `a` to the first j of `b`.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] = std::min(
          {rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix) {
  std::vector<std::string> found;
  for (const std::string& candidate : candidates) {
    if (!name.empty() && IsPartOfPath(name, candidate)) found.push_back(candidate);
  }
  if (found.empty()) found = NearestNames(name, candidates);
  if (found.empty()) return "";
  const size_t shown = std::min(found.size(), kMaxSuggestions);
  const bool all = shown == found.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    const bool is_last = all && i + 1 == shown;
    absl::StrAppend(&text, i == 0 ? "" : is_last ? " or " : ", ", prefix, found[i]);
  }
  return absl::StrCat("; did you mean ", text, all ? "" : ", ...", "?");
}

}  // namespace dpipe
