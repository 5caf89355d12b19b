#include "core/planner/search/pair_builder.h"

#include <utility>

#include "core/base/status.h"
#include "core/schedule/memory/memory.h"
#include "core/sim/lower_bound.h"

namespace dpipe {
namespace {

Strategy WithoutRecompute(Strategy strategy) {
  if (strategy.recompute() == "auto") strategy.set_recompute("none");
  return strategy;
}

}  // namespace

PairBuilder::PairBuilder(const Strategy& strategy, const BuildOptions& options,
                         const CostModel& cost)
    : builder_(strategy, options, cost),
      plain_builder_(WithoutRecompute(strategy), options, cost),
      self_conditioning_(cost.profile().self_conditioning_probability()) {}

absl::StatusOr<PlanPair> PairBuilder::Build(const Candidate& candidate, PlanBuilder::Extent extent,
                                            Nanos step_limit_ns) {
  PlanPair pair;
  if (self_conditioning_ > 0) step_limit_ns = 0;
  DPIPE_ASSIGN_OR_RETURN(pair.plain, BuildBetter(candidate, extent, false, step_limit_ns));
  pair.expected_step_ns = pair.plain.step_ns;
  if (self_conditioning_ > 0) {
    DPIPE_ASSIGN_OR_RETURN(pair.self_conditioned, BuildBetter(candidate, extent, true, 0));
    pair.expected_step_ns = Weighted(pair.plain.step_ns, pair.self_conditioned.step_ns);
  }
  return pair;
}

Nanos PairBuilder::Weighted(Nanos plain_ns, Nanos self_conditioned_ns) const {
  return static_cast<Nanos>(self_conditioning_ * static_cast<double>(self_conditioned_ns) +
                            (1 - self_conditioning_) * static_cast<double>(plain_ns));
}

Nanos PairBuilder::LowerBound(const Candidate& candidate, const PlanPair& pair) {
  const CostModel& cost = Of(candidate).CostOf(candidate.shape, PlanBuilder::Extent::kOneGroup);
  const Nanos plain_ns = StepLowerBound(pair.plain.plan, cost).bound_ns;
  if (self_conditioning_ == 0) return plain_ns;
  return Weighted(plain_ns, StepLowerBound(pair.self_conditioned.plan, cost).bound_ns);
}

absl::StatusOr<BuiltPlan> PairBuilder::BuildBetter(const Candidate& candidate,
                                                   PlanBuilder::Extent extent,
                                                   bool self_conditioning, Nanos step_limit_ns) {
  PlanBuilder& builder = Of(candidate);
  if (candidate.frozen_first) {
    return builder.BuildFrozenFirst(candidate.shape, candidate.cut, extent, self_conditioning);
  }
  DPIPE_ASSIGN_OR_RETURN(BuiltPlan built, builder.Build(candidate.shape, candidate.cut, extent,
                                                        self_conditioning, step_limit_ns));
  if (!builder.fills() || extent != PlanBuilder::Extent::kWhole) return built;
  absl::StatusOr<BuiltPlan> first =
      builder.BuildFrozenFirst(candidate.shape, candidate.cut, extent, self_conditioning);
  if (!first.ok() || first->step_ns >= built.step_ns) return built;
  return CheckMemory(first->plan, builder.CostOf(candidate.shape, extent)).ok() ? *std::move(first)
                                                                                : built;
}

}  // namespace dpipe
