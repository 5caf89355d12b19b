#include "baselines/registry.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "baselines/strategies.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/text/did_you_mean.h"
#include "core/base/text/show.h"
#include "core/planner/strategy.h"

namespace dpipe {
namespace {

// What every named strategy may do. A row overrides it if its definition says otherwise.
constexpr char kOptions[] = "recompute=auto,shard=none|zero1";

// Sorted by family, then by name.
std::vector<NamedStrategy> MakeStrategies() {
  std::vector<NamedStrategy> made;
  for (const StrategyRow& row : StrategyRows()) {
    NamedStrategy named = {row.family, DefaultStrategy(), row.summary};
    const std::string composition = absl::StrCat(kOptions, ",", row.composition);
    for (const absl::string_view part : absl::StrSplit(composition, ',')) {
      const absl::Status set = SetStrategyField(part, named.strategy);
      DPIPE_CHECK(set.ok()) << row.name << ": " << set.message();
    }
    named.strategy.set_name(row.name);
    made.push_back(std::move(named));
  }
  const auto key = [](const NamedStrategy& named) {
    return std::make_tuple(static_cast<int>(named.family), named.strategy.name());
  };
  std::sort(made.begin(), made.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (size_t i = 1; i < made.size(); ++i) {
    DPIPE_CHECK(key(made[i - 1]) != key(made[i])) << made[i].strategy.name() << " is there twice";
  }
  return made;
}

absl::StatusOr<Strategy> FindNamed(absl::string_view name) {
  for (const NamedStrategy& named : NamedStrategies()) {
    if (named.strategy.name() == std::string(name)) return named.strategy;
  }
  return absl::NotFoundError(absl::StrCat(
      "unknown strategy '", ShowText(name), "'; there are ", ShowNames(StrategyNames()),
      " (bazel run //tools:plan -- --list shows all), or compositions such as "
      "'schedule=1f1b,frozen=fill'",
      DidYouMean(std::string(name), StrategyNames(), "")));
}

}  // namespace

const std::vector<NamedStrategy>& NamedStrategies() {
  static const auto* const strategies = new std::vector<NamedStrategy>(MakeStrategies());
  return *strategies;
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const NamedStrategy& named : NamedStrategies()) names.push_back(named.strategy.name());
  return names;
}

std::vector<std::string> ExactStrategyNames() {
  std::vector<std::string> names;
  for (const NamedStrategy& named : NamedStrategies()) {
    if (named.family != StrategyFamily::kRelaxed) names.push_back(named.strategy.name());
  }
  return names;
}

Strategy DefaultStrategy() {
  Strategy strategy;
  strategy.set_partitioner("balanced");
  strategy.set_schedule("1f1b");
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  strategy.set_recompute("none");
  strategy.set_shard("none");
  return strategy;
}

absl::StatusOr<Strategy> FindStrategy(absl::string_view spec) {
  const std::vector<std::string> parts = absl::StrSplit(spec, ',');
  const bool starts_with_name = parts[0].find('=') == std::string::npos;
  Strategy strategy = DefaultStrategy();
  if (starts_with_name) {
    DPIPE_ASSIGN_OR_RETURN(strategy, FindNamed(parts[0]));
  }
  for (size_t i = starts_with_name ? 1 : 0; i < parts.size(); ++i) {
    DPIPE_RETURN_IF_ERROR(SetStrategyField(parts[i], strategy));
  }
  if (parts.size() > 1 || !starts_with_name) strategy.set_name(std::string(spec));
  DPIPE_RETURN_IF_ERROR(CheckStrategy(strategy));
  return strategy;
}

}  // namespace dpipe
