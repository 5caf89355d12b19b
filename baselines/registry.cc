#include "baselines/registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "baselines/data_parallel.h"
#include "baselines/diffusionpipe.h"
#include "baselines/gpipe.h"
#include "baselines/offline_cache.h"
#include "baselines/one_f_one_b.h"
#include "core/base/status.h"
#include "core/planner/strategy.h"

namespace dpipe {
namespace {

std::vector<Strategy> NamedStrategies() {
  return {DataParallel(), GPipe(), OneFOneB(), DiffusionPipe(), OfflineCache()};
}

absl::StatusOr<Strategy> FindNamed(absl::string_view name) {
  for (Strategy& strategy : NamedStrategies()) {
    if (strategy.name() == std::string(name)) return std::move(strategy);
  }
  return absl::NotFoundError(absl::StrCat(
      "unknown strategy '", name, "'; the known ones are ", absl::StrJoin(StrategyNames(), ", "),
      ", or compose one, for instance 'schedule=1f1b,frozen=fill'"));
}

Strategy DefaultComposition() {
  Strategy strategy;
  strategy.set_partitioner("balanced");
  strategy.set_schedule("1f1b");
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  return strategy;
}

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Strategy& strategy : NamedStrategies()) names.push_back(strategy.name());
  return names;
}

absl::StatusOr<Strategy> FindStrategy(absl::string_view spec) {
  const std::vector<std::string> parts = absl::StrSplit(spec, ',');
  const bool starts_with_name = parts[0].find('=') == std::string::npos;
  Strategy strategy = DefaultComposition();
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
