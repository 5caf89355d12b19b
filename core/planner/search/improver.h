// The best candidates of a search made better.                             [algorithms.md §2, §4]
//
// Each is changed in these ways, in turn, and what its simulated step gains by is kept:
//   order     other orders of its passes (schedule/tuning/tune_order.h), in the memory that its own
//             takes
//             and in all that is free, where the schedule is one that looks at costs
//   balance   layers of all backbones moved until devices have even work, then until the schedule
//             ends no earlier (balance_cut.h), with a new order each time
//   justify   orders again, by justification (schedule/tuning/justify_order.h), and layers, in turn
//   joint     layers and orders together (joint_search.h), in thorough searches; of the best
//             few that it finds, the one with the shortest step
//   receive   messages asked for more slots ahead
//   even out  layers moved from the devices that are done last with passes and frozen work to those
//             that are done first (cut_neighbours.h), in thorough searches
//   refine    single layers moved over stage boundaries, by simulation
//   weights   weight gradients before or after frozen work (fill/weight_order.h)
// All but the last two are Strategy.tune's: what they lead to is compared with what the last three
// make of the candidate alone, as a better beginning may end worse, and the better of the two is
// kept. In a thorough search all begins once more with that, for as long as it helps. Where a
// plan is filled and its order ends well before its step does, frozen work sets the step: then
// "justify" and "joint" are left out, and so they are, with "order", where the step is at the bound
// of its stages. All but the last only where the partitioner is "balanced": others' cuts are what
// they are. All of it takes from a budget, the search's, and stops where that is used up; what has
// been simulated before takes nothing. "joint" takes from it only what simulating its outcome does,
// and has an allowance of moves of its own.
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

// What has been simulated, by all that differs in a search with given S and M: Order, order of the
// passes, recv_lookahead and stages.
using SimulatedCandidates = std::map<std::tuple<CandidateOrder, std::shared_ptr<const Schedule>,
                                                int, std::vector<std::vector<LayerRange>>>,
                                     Candidate>;

// What it needs of a search.
struct ImproverContext {
  const CostModel* cost = nullptr;  // not owned, as are the others
  PairBuilder* pairs = nullptr;
  bool moves_layers = true;  // otherwise weight gradients alone
  bool tunes = false;        // orders and balance, too
  // There are few candidates, as where S and M are given, and time to even out and to begin once
  // more.
  bool thorough = false;
  // Builds the candidate's plan, up to `give_up_ns`; takes from the budget what that costs.
  std::function<absl::Status(Nanos give_up_ns, Candidate*)> simulate;
  std::function<int64_t(const PipelineShape&)> work;  // of one simulation
  int64_t* budget = nullptr;
  // What joint searches take from instead of the budget: moves of passes, for all candidates.
  int64_t* moves = nullptr;
  SimulatedCandidates* simulated = nullptr;
};

class Improver {
 public:
  explicit Improver(ImproverContext context) : context_(std::move(context)) {}

  // `candidate` has been simulated; the result is it or a better one.
  Candidate Improved(const Candidate& candidate);
  // The last three ways alone, for as long as they help.
  Candidate BySimulation(Candidate candidate);

 private:
  Candidate Tuned(const Candidate& start);
  bool OrderSetsStep(const Candidate& candidate);
  // Whether no other order of these stages' passes has a step that is noticeably shorter.
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
  // Whether the candidate with that order, or changed, is better than the best, which it then
  // becomes.
  bool ReplacesWith(Candidate candidate, Schedule order, Candidate* best);
  bool Replaces(const Candidate& changed, Candidate* best);
  // As many as `each` allows in a part of the budget, at most `most`; takes what they cost.
  int Afford(int most, int64_t each, double share);

  ImproverContext context_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_IMPROVER_H_
