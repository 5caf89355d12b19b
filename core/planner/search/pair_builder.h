// Builds a candidate's plan and, for a model with self-conditioning, the plan of the steps that run
// the backbone twice. [algorithms.md §2]
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
  // The mean of the two steps, weighted by how often each runs.
  Nanos expected_step_ns = 0;
};

// Not thread-safe.
class PairBuilder {
 public:
  // Takes the arguments of PlanBuilder's constructor.
  PairBuilder(const Strategy& strategy, const BuildOptions& options, const CostModel& cost);

  // Return the builder for the strategy. If the strategy leaves recomputation open, candidates that
  // may not recompute have a builder of their own.
  PlanBuilder& builder() { return builder_; }
  const PlanBuilder& builder() const { return builder_; }
  PlanBuilder& Of(const Candidate& candidate) {
    return candidate.may_recompute ? builder_ : plain_builder_;
  }

  // Builds the candidate's plans. With Extent::kWhole, a filled plan is replaced by the same plan
  // with its frozen work first if that is shorter. `step_limit_ns` is PlanBuilder::Build's; ignored
  // with self-conditioning.
  absl::StatusOr<PlanPair> Build(const Candidate& candidate, PlanBuilder::Extent extent,
                                 Nanos step_limit_ns = 0);
  // Returns a lower bound on the expected step, for the stages of a pair built with
  // Extent::kOneGroup.
  Nanos LowerBound(const Candidate& candidate, const PlanPair& pair);

 private:
  absl::StatusOr<BuiltPlan> BuildBetter(const Candidate& candidate, PlanBuilder::Extent extent,
                                        bool self_conditioning, Nanos step_limit_ns);

  Nanos Weighted(Nanos plain_ns, Nanos self_conditioned_ns) const;

  PlanBuilder builder_, plain_builder_;
  const double self_conditioning_;  // probability
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_PAIR_BUILDER_H_
