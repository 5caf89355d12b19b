// Improves the best candidates of a search. [algorithms.md §2, §4]
//
// Each candidate goes through these changes in turn. A change that shortens the simulated step is
// kept.
//
//   order     other orders of the passes (schedule/tuning/tune_order.h), within the memory of the
//   current
//             order and within all free memory; only if the schedule looks at costs
//   balance   layers of all backbones moved until devices have even work, then until the makespan
//             no longer falls (balance_cut.h), with a new order each time
//   justify   orders by justification (schedule/tuning/justify_order.h), and layers, in turn
//   joint     layers and orders together (joint_search.h), in thorough searches; of the best few
//             results, the one with the shortest step
//   receive   messages requested more slots ahead
//   even out  layers moved from the devices that finish passes and frozen work last to those that
//             finish first (cut_neighbours.h), in thorough searches
//   refine    single layers moved over stage boundaries, by simulation
//   weights   weight gradients before or after frozen work (fill/weight_order.h)
//
// All but the last two require Strategy.tune. Since a better start may end worse, the result is
// compared with the candidate after the last three changes alone, and the better of the two is
// kept. A thorough search repeats everything from there for as long as it helps.
//
// If a plan is filled and its order ends well before its step does, frozen work sets the step:
// "justify" and "joint" are skipped. If the step is at the bound of its stages, "order" is skipped
// too. All but "weights" require the partitioner "balanced": cuts of other partitioners stay as
// they are.
//
// Simulations are charged to the search's budget, and all changes stop when it is used up. A
// candidate that has been simulated before is free. "joint" is charged only for simulating its
// results; its moves have an allowance of their own.
#ifndef DPIPE_CORE_PLANNER_SEARCH_IMPROVER_H_
#define DPIPE_CORE_PLANNER_SEARCH_IMPROVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/frontier.h"
#include "core/planner/search/pair_builder.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Simulated candidates, by everything that differs in a search with given S and M: Order, order of
// the passes, recv_lookahead and stages.
using SimulatedCandidates = std::map<std::tuple<CandidateOrder, std::shared_ptr<const Schedule>,
                                                int, std::vector<std::vector<LayerRange>>>,
                                     Candidate>;

// What an Improver needs from a search.
struct ImproverContext {
  const CostModel* cost = nullptr;  // not owned, like all pointers here
  PairBuilder* pairs = nullptr;
  bool moves_layers = true;  // false: only weight gradients
  bool tunes = false;        // also orders and balance
  // There are few candidates, for example because S and M are given, so there is time to even out
  // and to repeat.
  bool thorough = false;
  // Builds and simulates the candidate's plan, up to `step_limit_ns`, and charges the budget.
  std::function<absl::Status(Nanos step_limit_ns, Candidate*)> simulate;
  std::function<int64_t(const PipelineShape&)> work;  // of one simulation, in instructions
  int64_t* budget = nullptr;
  // Allowance of joint searches, for all candidates: moves of passes. They do not use the budget.
  int64_t* moves = nullptr;
  SimulatedCandidates* simulated = nullptr;
};

class Improver {
 public:
  explicit Improver(ImproverContext context) : context_(std::move(context)) {}

  // Returns `candidate`, which has been simulated, or a better one.
  Candidate Improved(const Candidate& candidate);
  // Applies only the last three changes; repeats them in a thorough search for as long as they
  // help.
  Candidate BySimulation(Candidate candidate);

 private:
  Candidate Tuned(const Candidate& start);
  bool OrderSetsStep(const Candidate& candidate);
  // True if no other order of these stages' passes has a noticeably shorter step.
  static bool IsAtBound(const Candidate& candidate);
  PlanBuilder& BuilderOf(const Candidate& candidate) { return context_.pairs->Of(candidate); }
  absl::StatusOr<Schedule> OrderOf(const Candidate& candidate);
  void TryOrders(const Candidate& start, Candidate* best);
  void Balance(bool by_makespan, Candidate* best);
  void Justify(Candidate* best);
  void SearchJointly(Candidate* best);
  void ReceiveEarlier(Candidate* best);
  std::vector<Nanos> FinishesOf(const Candidate& candidate) const;
  void EvenOut(Candidate* best);
  void Refine(Candidate* best);
  bool ImprovesBy(const Candidate& start, size_t backbone, size_t cut, int move, Candidate* best);
  void OrderWeightGradients(Candidate* best);
  // Replace `*best` with the candidate, with `order` or as it is, if that is better. Return true if
  // so.
  bool ReplacesWith(Candidate candidate, Schedule order, Candidate* best);
  bool Replaces(const Candidate& changed, Candidate* best);
  // Returns how many items at `each` instructions fit in `share` of the budget, at most `most`, and
  // charges the budget for them.
  int Afford(int most, int64_t each, double share);

  ImproverContext context_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_IMPROVER_H_
