// Explores a strategy's candidates in the order of their expected steps, until nothing better is
// expected or the budget is used up. [algorithms.md §2, §4]
//
// A candidate takes three steps. After each one it waits in the frontier until it is first again:
//
//   1. Estimate its shape.
//   2. Cut it into stages and estimate it again.
//   3. Lower and simulate it, filled if the strategy fills.
//
// Shapes that no cut can fit into memory (memory_bound.h) wait behind all others. A failed cut
// costs the budget no more than a good one. While nothing has been found that fits, the search
// continues beyond its budget, up to 20 times as much. From then on it takes the candidates that
// need the least memory first, so that "nothing fits" is an answer about all of them.
#ifndef DPIPE_CORE_PLANNER_SEARCH_EXPLORER_H_
#define DPIPE_CORE_PLANNER_SEARCH_EXPLORER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/estimate.h"
#include "core/planner/plan_options.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/frontier.h"
#include "core/planner/search/pair_builder.h"
#include "core/planner/search/search_work.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// What all searches for one plan share. Not thread-safe.
struct SearchTables {
  explicit SearchTables(const CostModel& cost)
      : plans(std::make_shared<PlanTables>(cost)), estimates(std::make_shared<EstimateTables>()) {}

  std::shared_ptr<PlanTables> plans;
  std::shared_ptr<EstimateTables> estimates;
};

// Not thread-safe.
class Explorer {
 public:
  // The first three arguments must outlive this.
  Explorer(const Strategy& strategy, const CostModel& cost, const PlanOptions& options,
           const SearchTables& tables);

  // Makes and estimates the candidates. Returns InvalidArgument if an option is out of range.
  absl::Status Prepare();
  std::vector<Candidate>& candidates() { return candidates_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Adds a candidate to those that Run explores.
  void Add(bool may_recompute, Candidate* candidate);
  // Explores the added candidates and charges the budget. Ends when every candidate that is
  // expected to take no longer than the best step found, plus a margin, has been explored. If
  // `limit_ns` > 0, also ends when nothing is expected to come near it. `tunes`: candidates are
  // tuned later and may improve then.
  void Run(Nanos limit_ns, bool tunes);
  // Simulates, as Run does, a candidate whose cut was made elsewhere.
  absl::Status TryCut(bool tunes, Candidate* candidate);
  // Builds and simulates the candidate's plan. Stops early if its step turns out to be longer than
  // `step_limit_ns` (0: never).
  absl::Status Simulate(Nanos step_limit_ns, Candidate* candidate);
  // Returns the work of one simulation, in instructions.
  int64_t Work(const PipelineShape& shape);
  // Returns the minimum Ideal step of the candidates that memory may admit; 0 if there are none.
  // `tunes`: with the idle time that tuning cannot remove instead of all.
  Nanos MinIdealStep(bool tunes);

  // Returns the minimum expected step of an alternative's candidates, by all that is known after
  // Run. Candidates count with their Ideal step if their schedule has not been simulated. Returns 0
  // if there are none, or if one ran out of memory only when it was simulated, which says little
  // about its other plans. Returns the largest Nanos if all of them lack memory.
  Nanos ExpectedOf(int alternative);

  int64_t* budget() { return &budget_; }
  int64_t PartOfBudget(double share) const;  // `share` of PlanOptions.simulation_budget
  PairBuilder& pairs() { return pairs_; }
  // Returns the best candidate, as first cut.
  const std::optional<Candidate>& found() const { return found_; }
  int num_simulated() const { return num_simulated_; }
  // Returns the number of candidates that may be better but that the budget did not allow.
  int num_left() const { return num_left_; }
  absl::Status NothingFitsError() const;

 private:
  double MemoryShareOf(Candidate candidate);
  bool IsOver(const Candidate& next, Nanos limit_ns) const;
  bool SharesOutcome(Candidate* candidate) const;
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
