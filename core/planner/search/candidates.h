// Which candidates a search has: every shape of every alternative that its strategy leaves open.
#ifndef DPIPE_CORE_PLANNER_SEARCH_CANDIDATES_H_
#define DPIPE_CORE_PLANNER_SEARCH_CANDIDATES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/estimate.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/plan_options.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/frontier.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// A schedule, a sharding and a partitioner (empty: the strategy's); Candidate.alternative is an
// index into these.
struct Alternative {
  std::string schedule;
  Sharding sharding = Sharding::kNone;
  std::string partitioner;
  bool has_own_sharding = false;  // whatever the strategy's are
};

// The strategy's schedules under the sharding it names first, then under the next; those that name
// a sharding of their own come last. Of several alternatives only those that the model and the
// sharding admit: schedules of several backbones for models that have as many, and weights that are
// there once where they are divided.
std::vector<Alternative> AlternativesOf(const Strategy& strategy, const CostModel& cost);

// The simpler strategies that a filling one contains, by alternative: that alternative alone, with
// frozen work before the pipeline, not tuned, and recomputing only if `strategy` always does. Of
// the shardings that all alternatives share, those after the first only for schedules of one stage.
std::vector<std::pair<int, Strategy>> SimplerStrategies(const Strategy& strategy,
                                                        const CostModel& cost);

// The one of `candidates` that is the same pipeline with so many times the micro-batches; null if
// there is none.
Candidate* FindLarger(const Candidate& smaller, int times, std::vector<Candidate>* candidates);

// Made of a strategy, a model on a cluster and what its user requests.
class CandidateSource {
 public:
  // All must outlive this.
  CandidateSource(const Strategy& strategy, const CostModel& cost, const PlanOptions& options,
                  const PlanBuilder& builder)
      : strategy_(strategy), cost_(cost), options_(options), builder_(builder) {}

  // InvalidArgument, naming the number and its value, for options that are out of range.
  absl::Status Check() const;
  // Estimated, by alternative, S, M and D. `why` receives the first reason for leaving one out.
  std::vector<Candidate> All(StepEstimator* estimator, absl::Status* why) const;

 private:
  ShapeRequest RequestOf(const std::string& schedule) const;
  void AddWithFewerHosts(Candidate candidate, std::vector<Candidate>* candidates) const;

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  const PlanBuilder& builder_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_CANDIDATES_H_
