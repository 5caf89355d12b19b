// A candidate's plan and, of a model with self-conditioning, the plan of the steps that run the
// backbone twice.                                                               [algorithms.md §2]
#ifndef DPIPE_CORE_PLANNER_SEARCH_PAIR_BUILDER_H_
#define DPIPE_CORE_PLANNER_SEARCH_PAIR_BUILDER_H_

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/frontier.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct PlanPair {
  BuiltPlan plain, self_conditioned;
  // Weighted by how often each runs.
  Nanos expected_step_ns = 0;
};

// Not thread-safe.
class PairBuilder {
 public:
  // As PlanBuilder's.
  PairBuilder(const Strategy& strategy, const BuildOptions& options, const CostModel& cost);

  // As the strategy says, and, where it leaves recomputation open and the candidate does not,
  // without.
  PlanBuilder& builder() { return builder_; }
  const PlanBuilder& builder() const { return builder_; }
  PlanBuilder& Of(const Candidate& candidate) {
    return candidate.may_recompute ? builder_ : plain_builder_;
  }

  // Built whole, a filled plan is never worse than the same with its frozen work first: where
  // filling is, it is not done. `give_up_ns` as PlanBuilder::Build's; not with self-conditioning.
  absl::StatusOr<PlanPair> Build(const Candidate& candidate, PlanBuilder::Extent extent,
                                 Nanos give_up_ns = 0);
  // Of the expected step, for the stages of a pair built of one group for all.
  Nanos LowerBound(const Candidate& candidate, const PlanPair& pair);

 private:
  absl::StatusOr<BuiltPlan> BuildBetter(const Candidate& candidate, PlanBuilder::Extent extent,
                                        bool self_conditioning, Nanos give_up_ns);

  Nanos Weighted(Nanos plain_ns, Nanos self_conditioned_ns) const;

  PlanBuilder builder_, plain_builder_;
  const double self_conditioning_;  // probability
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_PAIR_BUILDER_H_
