#include "core/planner/fill/frozen_work.h"

#include <algorithm>
#include <utility>

namespace dpipe {
namespace {

// Returns the groups of frozen components that read each other, directly or indirectly. Within a
// group, each component comes after the components that it reads.
std::vector<std::vector<int>> Groups(const CostModel& cost) {
  std::vector<int> group(cost.num_components());
  for (int c = 0; c < cost.num_components(); ++c) group[c] = c;
  for (int c : cost.frozen_components()) {
    for (int source : cost.SourcesOf(c, cost.AllLayers(c))) {
      const int from = std::max(group[source], group[c]), to = std::min(group[source], group[c]);
      for (int& g : group) g = g == from ? to : g;
    }
  }
  std::vector<std::vector<int>> groups(cost.num_components());
  for (int c : cost.frozen_components()) groups[group[c]].push_back(c);
  groups.erase(std::remove(groups.begin(), groups.end(), std::vector<int>{}), groups.end());
  return groups;
}

Nanos StepTime(const CostModel& cost, const WorkStep& step, int samples) {
  if (step.layer == kLoadStep) return cost.Load(step.component, samples);
  return cost.Forward(step.component, {step.layer, step.layer + 1}, samples);
}

Chain MakeChain(const CostModel& cost, const std::vector<int>& components, int num_units) {
  Chain chain;
  for (int c : components) {
    chain.steps.push_back({c, kLoadStep, true});
    for (int l = 0; l < cost.num_layers(c); ++l) chain.steps.push_back({c, l, l == 0});
  }
  chain.total_ns.assign(num_units + 1, 0);
  for (const WorkStep& step : chain.steps) {
    std::vector<Nanos> ns(num_units + 1, 0);
    for (int u = 1; u <= num_units; ++u) {
      ns[u] = StepTime(cost, step, u * cost.frozen_quantum());
      chain.total_ns[u] += ns[u];
    }
    chain.step_ns.push_back(std::move(ns));
  }
  return chain;
}

}  // namespace

FrozenWork MakeFrozenWork(const CostModel& cost, int num_units) {
  FrozenWork work;
  work.quantum = cost.frozen_quantum();
  work.num_units = num_units;
  work.instruction_overhead_ns = cost.profile().launch_overhead_ns();
  for (const std::vector<int>& group : Groups(cost)) {
    work.chains.push_back(MakeChain(cost, group, num_units));
  }
  return work;
}

}  // namespace dpipe
