#include "core/train/config_match.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/text/show.h"

namespace dpipe {
namespace {

// One behind the other, or of several each on a line of its own.
std::string List(const std::vector<FieldDifference>& differences) {
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kMaxShownNames); ++i) {
    absl::StrAppend(&text, differences.size() > 1 ? "\n  " : " ",
                    DescribeDifference(differences[i]));
  }
  if (differences.size() > kMaxShownNames) {
    absl::StrAppend(&text, "\n  and ", differences.size() - kMaxShownNames, " more");
  }
  return text;
}

std::string ValueOf(const ConfigFields& fields, const std::string& field) {
  const auto it = fields.find(field);
  if (it == fields.end()) return "(none)";
  return it->second.empty() ? "(empty)" : it->second;
}

}  // namespace

std::vector<FieldDifference> CompareConfigs(
    const ConfigFields& saved, const ConfigFields& now,
    const std::function<FieldPolicy(const std::string& field)>& policy) {
  std::set<std::string> names;
  for (const auto& [name, value] : saved) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  std::vector<FieldDifference> differences;
  for (const std::string& name : names) {
    FieldDifference difference{name, ValueOf(saved, name), ValueOf(now, name), policy(name)};
    if (difference.saved != difference.now) differences.push_back(std::move(difference));
  }
  return differences;
}

absl::Status CheckDifferences(const std::vector<FieldDifference>& differences, bool allow_risky,
                              const std::string& risk_flag) {
  std::vector<FieldDifference> fixed, risky;
  for (const FieldDifference& difference : differences) {
    if (difference.policy == FieldPolicy::kFixed) fixed.push_back(difference);
    if (difference.policy == FieldPolicy::kRisky && !allow_risky) risky.push_back(difference);
  }
  std::string message;
  if (!fixed.empty()) {
    message = absl::StrCat("the run cannot go on with a change of", List(fixed));
  }
  if (!risky.empty()) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", "with ", risk_flag,
                    " alone it goes on with a change of", List(risky));
  }
  return message.empty() ? absl::OkStatus() : absl::FailedPreconditionError(message);
}

std::string DescribeDifference(const FieldDifference& difference) {
  return absl::StrCat(difference.field, ": ", ShowText(difference.saved), " -> ",
                      ShowText(difference.now));
}

}  // namespace dpipe
