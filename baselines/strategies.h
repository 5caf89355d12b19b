// The table of the named strategies.
#ifndef DPIPE_BASELINES_STRATEGIES_H_
#define DPIPE_BASELINES_STRATEGIES_H_

#include <vector>

#include "baselines/registry.h"

namespace dpipe {

struct StrategyRow {
  StrategyFamily family;
  const char* name;
  const char* composition;  // as FindStrategy takes it: "schedule=gpipe,frozen=fill"
  const char* summary;      // as NamedStrategy's
};

const std::vector<StrategyRow>& StrategyRows();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_STRATEGIES_H_
