// Whether a run may go on with another configuration than the one it was saved with.
#ifndef DPIPE_CORE_TRAIN_CONFIG_MATCH_H_
#define DPIPE_CORE_TRAIN_CONFIG_MATCH_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

enum class FieldPolicy {
  // Says what to do besides training, or where it runs: numbers stay what they were, to rounding.
  kFree,
  // Numbers become others, and a person may want just that: a learning rate, a loss. Only if asked
  // for.
  kRisky,
  // Says which data there is. Only if asked for, and the order of the samples then starts over if
  // they are others.
  kData,
  // What is saved would not fit or would mean something else: the model, the order of the data.
  kFixed,
};

using ConfigFields = std::map<std::string, std::string>;  // value by name

struct FieldDifference {
  std::string field;
  std::string saved, now;  // "(none)" where one of them does not have it
  FieldPolicy policy = FieldPolicy::kFixed;
};

// All fields that differ, by name.
std::vector<FieldDifference> CompareConfigs(
    const ConfigFields& saved, const ConfigFields& now,
    const std::function<FieldPolicy(const std::string& field)>& policy);

// A flag that lets fields of a policy differ: "--allow_config_change".
struct PolicyFlag {
  FieldPolicy policy = FieldPolicy::kRisky;
  std::string flag;
  bool is_given = false;
};

// FailedPrecondition lists the fields that may not differ, with both values, and says for which of
// them which of `flags` would do.
absl::Status CheckDifferences(const std::vector<FieldDifference>& differences,
                              const std::vector<PolicyFlag>& flags);

// "learning_rate.peak: 0.001 -> 0.0005".
std::string DescribeDifference(const FieldDifference& difference);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CONFIG_MATCH_H_
