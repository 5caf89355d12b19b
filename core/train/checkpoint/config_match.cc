#include "core/train/checkpoint/config_match.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/show.h"

namespace dpipe {
namespace {

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

absl::Status CheckDifferences(const std::vector<FieldDifference>& differences,
                              const std::vector<PolicyFlag>& flags) {
  const auto of_policy = [&differences](FieldPolicy policy) {
    std::vector<std::string> described;
    for (const FieldDifference& difference : differences) {
      if (difference.policy == policy) described.push_back(DescribeDifference(difference));
    }
    return described;
  };
  std::vector<std::string> parts;
  const std::vector<std::string> fixed = of_policy(FieldPolicy::kFixed);
  if (!fixed.empty()) {
    parts.push_back(absl::StrCat("the run cannot resume with changes to ", ShowNames(fixed)));
  }
  for (const PolicyFlag& flag : flags) {
    const std::vector<std::string> refused = of_policy(flag.policy);
    if (flag.is_given || refused.empty()) continue;
    parts.push_back(
        absl::StrCat("pass ", flag.flag, " to resume with changes to ", ShowNames(refused)));
  }
  return parts.empty() ? absl::OkStatus()
                       : absl::FailedPreconditionError(absl::StrJoin(parts, "; "));
}

std::string DescribeDifference(const FieldDifference& difference) {
  return absl::StrCat(difference.field, ": ", ShowText(difference.saved), " -> ",
                      ShowText(difference.now));
}

}  // namespace dpipe
