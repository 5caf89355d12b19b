// The candidates of a search: every shape of every alternative that its strategy leaves open.
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

// A schedule, a sharding and a partitioner (empty: the strategy's). Candidate.alternative is an
// index into a list of these.
struct Alternative {
  std::string schedule;
  Sharding sharding = Sharding::kNone;
  std::string partitioner;
  bool has_own_sharding = false;  // the schedule names it; Strategy.shard does not apply
};

// Returns the strategy's schedules under the sharding that it names first, then under the next, and
// so on; schedules that name a sharding of their own come last. If there are several alternatives,
// only those that suit the model are returned: a schedule for several backbones needs a model with
// as many, and divided weights need a schedule that holds each weight once.
std::vector<Alternative> AlternativesOf(const Strategy& strategy, const CostModel& cost);

// Returns the simpler strategies that a filling one contains, each with the index of its
// alternative: that alternative alone, frozen work before the pipeline, no tuning, and
// recomputation only if `strategy` always recomputes. Shardings after the first are included only
// for schedules of one stage or with a sharding of their own.
std::vector<std::pair<int, Strategy>> SimplerStrategies(const Strategy& strategy,
                                                        const CostModel& cost);

// Returns the candidate with the same pipeline and `times` as many micro-batches; null if there is
// none.
Candidate* FindLarger(const Candidate& smaller, int times, std::vector<Candidate>* candidates);

// Enumerates the candidates of one strategy, model, cluster and user request.
class CandidateSource {
 public:
  // All arguments must outlive this.
  CandidateSource(const Strategy& strategy, const CostModel& cost, const PlanOptions& options,
                  const PlanBuilder& builder)
      : strategy_(strategy), cost_(cost), options_(options), builder_(builder) {}

  // Returns InvalidArgument, naming the number and its value, if an option is out of range.
  absl::Status Check() const;
  // Returns the candidates with their estimates, by alternative, S, M and D. `why` receives the
  // first reason for leaving one out.
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
