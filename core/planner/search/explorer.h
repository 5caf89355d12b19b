// Looks at a strategy's candidates in the order of what is expected of them, until nothing better
// is expected or the budget is used up.                                     [algorithms.md §2, §4]
//
// A candidate goes through three steps: its shape is estimated; it is cut into stages and estimated
// again; it is lowered and simulated, filled where the strategy fills. After each step it waits in
// the frontier until it is first once more. Shapes that no cut can fit into memory
// (memory_bound.h) wait behind all others; a failed cut costs the budget no more than a good one.
// As long as nothing has been found that fits, the search goes on beyond its budget, from then on
// with the candidates that need least memory first, so that "nothing fits" is an answer about all
// of them.
#ifndef DPIPE_CORE_PLANNER_SEARCH_EXPLORER_H_
#define DPIPE_CORE_PLANNER_SEARCH_EXPLORER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/estimate.h"
#include "core/planner/plan_options.h"
#include "core/planner/search/frontier.h"
#include "core/planner/search/pair_builder.h"
#include "core/planner/search/search_work.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Not thread-safe.
class Explorer {
 public:
  // All must outlive this.
  Explorer(const Strategy& strategy, const CostModel& cost, const PlanOptions& options);

  // Makes and estimates the candidates. InvalidArgument for options that are out of range.
  absl::Status Prepare();
  std::vector<Candidate>& candidates() { return candidates_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Lets a candidate wait for Run.
  void Add(bool may_recompute, Candidate* candidate);
  // Looks at those that wait and takes what it costs from the budget. Ends once all that is
  // expected to take no longer than the best step found, and a margin, has been looked at; with
  // `limit_ns` > 0 also once nothing is expected to come near that. `tunes`: candidates are tuned
  // later and may do better then.
  void Run(Nanos limit_ns, bool tunes);
  // Simulates a candidate that has a cut already, made elsewhere, as Run does.
  absl::Status TryCut(bool tunes, Candidate* candidate);
  // Builds the candidate's plan; if that shows to be longer than `give_up_ns` (0: never), not to
  // the end.
  absl::Status Simulate(Nanos give_up_ns, Candidate* candidate);
  // Of one simulation, in instructions.
  int64_t Work(const PipelineShape& shape);
  // The least Ideal step of the candidates that memory may admit; 0: there is none.
  Nanos LeastIdeal();

  // The least step that is expected of the candidates of an alternative, by all that is known after
  // Run; by LeastIdeal's measure of those whose schedule has not been simulated. 0 if there
  // are none, or one turned out to lack memory only when it was simulated, which says little of
  // other plans of it.
  Nanos ExpectedOf(int alternative);

  int64_t* budget() { return &budget_; }
  int64_t PartOfBudget(double share) const;  // of PlanOptions.simulation_budget
  PairBuilder& pairs() { return pairs_; }
  // The best as first cut.
  const std::optional<Candidate>& found() const { return found_; }
  int num_simulated() const { return num_simulated_; }
  // Candidates that the budget kept from being looked at though they may be better.
  int num_left() const { return num_left_; }
  absl::Status WhyNothing() const;

 private:
  double MemoryShareOf(Candidate candidate);
  bool IsOver(const Candidate& next, Nanos limit_ns) const;
  bool IsExpectedToHelp(const Candidate& candidate);
  absl::Status Advance(bool tunes, Candidate* candidate);
  absl::Status CutWithin(Candidate* candidate);
  absl::Status Cut(Candidate* candidate);
  absl::Status EstimateCut(Candidate* candidate);
  absl::Status SimulateFound(bool tunes, Candidate* candidate);
  void Reject(Candidate* candidate, const absl::Status& status);

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  StepEstimator estimator_;
  Frontier frontier_;
  PairBuilder pairs_;
  const SearchWork work_;
  const double self_conditioning_;  // probability
  int64_t budget_ = 0;
  std::vector<Candidate> candidates_;
  absl::Status why_not_;
  std::optional<Candidate> found_;
  int num_simulated_ = 0, num_left_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_EXPLORER_H_
