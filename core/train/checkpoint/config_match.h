// Checks if a run may continue with a different configuration than the one it was saved with.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CONFIG_MATCH_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CONFIG_MATCH_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

enum class FieldPolicy {
  // Concerns work other than training, or placement: numbers do not change, except for rounding.
  kFree,
  // Changes the numbers, which may be intended: a learning rate, a loss. Allowed on request.
  kRisky,
  // Determines the data. Allowed on request; if the data differ, the order of the samples restarts.
  kData,
  // The saved state would not fit or would change its meaning: the model, the order of the data.
  kFixed,
};

using ConfigFields = std::map<std::string, std::string>;  // value by name

struct FieldDifference {
  std::string field;
  std::string saved, now;  // "(none)" if the field is missing in one of them
  FieldPolicy policy = FieldPolicy::kFixed;
};

// Returns all fields that differ, by name.
std::vector<FieldDifference> CompareConfigs(
    const ConfigFields& saved, const ConfigFields& now,
    const std::function<FieldPolicy(const std::string& field)>& policy);

// A flag that allows fields of a policy to differ: "--allow_config_change".
struct PolicyFlag {
  FieldPolicy policy = FieldPolicy::kRisky;
  std::string flag;
  bool is_given = false;
};

// Returns FailedPrecondition with the fields that may not differ, both values, and the one of
// `flags` that would allow it, if any.
absl::Status CheckDifferences(const std::vector<FieldDifference>& differences,
                              const std::vector<PolicyFlag>& flags);

// Returns "learning_rate.peak: 0.001 -> 0.0005".
std::string DescribeDifference(const FieldDifference& difference);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CONFIG_MATCH_H_
