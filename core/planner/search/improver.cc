#include "core/planner/search/improver.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/planner/costs/cut_costs.h"
#include "core/planner/cuts/cut_neighbours.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/joint_search.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/tuning/justify_order.h"
#include "core/schedule/tuning/pass_graph.h"
#include "core/schedule/tuning/pass_sequences.h"
#include "core/schedule/tuning/tune_order.h"

namespace dpipe {
namespace {

// Per candidate and turn: the maximum number of orders, of cuts judged by work, and of cuts judged
// by makespan, and the fraction of its budget that each turn may take.
constexpr int kMaxOrders = 200;
constexpr int kCutsByWork = 4000;
constexpr int kCutsByMakespan = 600;
constexpr double kOrdersShare = 0.15;
constexpr double kCutsShare = 0.1;
// Their cost in simulated instructions: a list schedule costs one per slot, a makespan one per this
// many slots. Of cuts judged by work, this many cost one instruction.
constexpr int kSlotsPerMakespan = 20;
constexpr int kCutsPerInstruction = 4;
// How many slots before the pass that needs it a message is requested, if not 1.
constexpr int kLookaheads[] = {2, 3, 5, 12, 30};
// Rounds of justification, the maximum and minimum number of lists placed in each, and the cost of
// placing one, per slot.
constexpr int kJustifyRounds = 4;
constexpr int kMaxLists = 400;
constexpr int kMinLists = 5;
constexpr int kCostPerListSlot = 1;
constexpr double kListsShare = 0.3;
// Maximum number of cuts simulated to even out the devices' finish times.
constexpr size_t kMaxEvened = 100;
// How much later than now a device may finish with such a cut before simulation, since frozen work
// is then redistributed: one part in this of the step.
constexpr int kFinishMarginPart = 100;
// An order sets the step if its makespan is more than this fraction of it.
constexpr double kSetsStep = 0.95;
// Maximum number of moves of passes in a joint search. They have a separate allowance and do not
// use the budget. A move visits all slots, so with more slots than this it counts as several. Long
// orders have less to gain, so that number is squared.
constexpr int kMaxMoves = 60000;
constexpr int64_t kSlotsPerMove = 1536;
// No shorter order is sought if the step is at most this many times its bound.
constexpr double kAtBound = 1.002;
// The step of a candidate without a plan.
constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

int64_t NumSlots(const Schedule& schedule) {
  int64_t slots = 0;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    slots += static_cast<int64_t>(schedule.slots(d).size());
  }
  return slots;
}

}  // namespace

Candidate Improver::Improved(const Candidate& candidate) {
  if (!context_.moves_layers || !context_.tunes) return BySimulation(candidate);
  const int64_t later = *context_.budget / 2;
  *context_.budget -= later;
  Candidate best = BySimulation(candidate);
  *context_.budget += later;
  const Candidate tuned = BySimulation(Tuned(candidate));
  if (tuned.step_ns < best.step_ns) best = tuned;
  while (context_.thorough && *context_.budget > 0) {
    Candidate again = BySimulation(Tuned(best));
    if (again.step_ns >= best.step_ns) break;
    best = std::move(again);
  }
  return best;
}

Candidate Improver::Tuned(const Candidate& start) {
  Candidate tuned = start;
  TryOrders(start, &tuned);
  Balance(/*by_makespan=*/false, &tuned);
  Balance(/*by_makespan=*/true, &tuned);
  if (OrderSetsStep(tuned)) {
    Justify(&tuned);
    SearchJointly(&tuned);
  }
  ReceiveEarlier(&tuned);
  return tuned;
}

// False if the bound sets the step, or frozen work that fills gaps: a shorter order would have more
// or longer gaps instead.
bool Improver::OrderSetsStep(const Candidate& candidate) {
  if (IsAtBound(candidate)) return false;
  if (!context_.pairs->builder().fills()) return true;
  const absl::StatusOr<Schedule> order = OrderOf(candidate);
  if (!order.ok()) return false;
  const PassGraph graph(*order,
                        BuilderOf(candidate).TimesOf(candidate.shape, candidate.cut, *order));
  const PassSequences sequences(graph, graph.TopologicalOrderBy(graph.OriginalStartTimes()));
  return static_cast<double>(sequences.makespan_ns()) >
         kSetsStep * static_cast<double>(candidate.step_ns);
}

Candidate Improver::BySimulation(Candidate candidate) {
  for (Nanos before = 0; candidate.step_ns != before;) {
    before = candidate.step_ns;
    if (context_.moves_layers && context_.thorough) EvenOut(&candidate);
    if (context_.moves_layers) Refine(&candidate);
    if (context_.pairs->builder().fills()) OrderWeightGradients(&candidate);
    if (!context_.thorough) break;
  }
  return candidate;
}

bool Improver::IsAtBound(const Candidate& candidate) {
  return static_cast<double>(candidate.step_ns) <=
         kAtBound * static_cast<double>(candidate.bound_ns);
}

int Improver::Afford(int most, int64_t each, double share) {
  const double part = share * static_cast<double>(std::max<int64_t>(0, *context_.budget));
  const int count = static_cast<int>(std::min<double>(most, part / static_cast<double>(each)));
  *context_.budget -= count * each;
  return count;
}

absl::StatusOr<Schedule> Improver::OrderOf(const Candidate& candidate) {
  return BuilderOf(candidate).ScheduleOf(candidate.shape, candidate.cut);
}

void Improver::TryOrders(const Candidate& start, Candidate* best) {
  if (IsAtBound(*best)) return;
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(start.shape.schedule);
  if (!traits.ok() || !traits->takes_costs) return;
  const absl::StatusOr<Schedule> order = OrderOf(start);
  if (!order.ok()) return;
  const std::vector<int> room = BuilderOf(start).ExtraPairsThatFit(start.shape, start.cut, *order);
  TuneOrderOptions options;
  options.costs = StagePassCosts(*order, start.cut, start.shape, *context_.cost);
  for (bool use_room : {false, true}) {
    options.max_tried = Afford(kMaxOrders, NumSlots(*order), kOrdersShare);
    options.device_limits.clear();
    for (int d = 0; d < order->num_devices(); ++d) {
      const int limit = order->PeakStashedOnDevice(d) + (use_room ? room[d] : 0);
      options.device_limits.push_back(limit);
    }
    Schedule tuned = TuneOrder(*order, options);
    if (tuned.Makespan(options.costs) >= order->Makespan(options.costs)) continue;
    ReplacesWith(start, std::move(tuned), best);
  }
}

// Tries the cut with the order made for the new times, and with the order that it was balanced for.
void Improver::Balance(bool by_makespan, Candidate* best) {
  absl::StatusOr<Schedule> order = OrderOf(*best);
  if (!order.ok()) return;
  const int count =
      by_makespan ? Afford(kCutsByMakespan, NumSlots(*order) / kSlotsPerMakespan + 1, kCutsShare)
                  : Afford(kCutsByWork / kCutsPerInstruction, 1, kCutsShare) * kCutsPerInstruction;
  Candidate moved = *best;
  moved.cut =
      BuilderOf(moved).Balance(moved.shape, moved.cut, *order, by_makespan, std::max(1, count));
  if (moved.cut.stages == best->cut.stages) return;
  absl::StatusOr<Schedule> remade = OrderOf(moved);
  if (remade.ok()) {
    ReplacesWith(moved, *remade, best);
    moved.cut.schedule = std::make_shared<const Schedule>(*std::move(remade));
    TryOrders(moved, best);
  }
  if (!by_makespan) return;
  ReplacesWith(moved, *order, best);
  moved.cut.schedule = std::make_shared<const Schedule>(*std::move(order));
  TryOrders(moved, best);
}

// Alternates orders and cuts: a new order changes what limits the makespan, and so do moved layers.
void Improver::Justify(Candidate* best) {
  Candidate current = *best;
  for (int round = 0; round < kJustifyRounds; ++round) {
    absl::StatusOr<Schedule> order = OrderOf(current);
    if (!order.ok()) return;
    const int lists = Afford(kMaxLists, kCostPerListSlot * NumSlots(*order), kListsShare);
    if (lists < kMinLists) return;
    const PlanBuilder& builder = BuilderOf(current);
    JustifyOptions options;
    options.times = builder.TimesOf(current.shape, current.cut, *order);
    options.max_placed = lists;
    Schedule justified = JustifyOrder(*order, options);
    ReplacesWith(current, justified, best);
    const int count = Afford(kCutsByMakespan, NumSlots(*order) / kSlotsPerMakespan + 1, kCutsShare);
    current.cut = builder.Balance(current.shape, current.cut, justified, /*by_makespan=*/true,
                                  std::max(1, count));
    current.cut.schedule = std::make_shared<const Schedule>(std::move(justified));
    Candidate moved = current;
    Replaces(moved, best);
  }
}

void Improver::SearchJointly(Candidate* best) {
  absl::StatusOr<Schedule> order = OrderOf(*best);
  if (!order.ok()) return;
  const int64_t times = (NumSlots(*order) + kSlotsPerMove - 1) / kSlotsPerMove;
  const int64_t price = times * times;
  Candidate moved = *best;
  moved.cut.schedule = std::make_shared<const Schedule>(*std::move(order));
  // The two ways find different results, and neither is always better.
  for (bool diversify : {true, false}) {
    JointOptions options;
    options.diversify = diversify;
    const int64_t allowed = std::min<int64_t>(kMaxMoves, *context_.moves / (1 + diversify));
    options.max_moves = static_cast<int>(allowed / price);
    if (options.max_moves == 0) return;
    *context_.moves -= options.max_moves * price;
    for (const JointResult& found :
         dpipe::SearchJointly(BuilderOf(moved), moved.shape, moved.cut, options)) {
      Candidate shortened = moved;
      shortened.cut = found.cut;
      Replaces(shortened, best);
    }
  }
}

// Helps if passes are shorter than the messages that they should hide.
void Improver::ReceiveEarlier(Candidate* best) {
  for (int lookahead : kLookaheads) {
    Candidate changed = *best;
    changed.cut.recv_lookahead = lookahead;
    Replaces(changed, best);
  }
}

// Returns, by schedule device, when the last of its ranks finishes.
std::vector<Nanos> Improver::FinishesOf(const Candidate& candidate) const {
  std::vector<Nanos> finishes;
  for (const DeviceSeat& seat : SeatsOf(candidate.cut)) {
    const auto first = candidate.finish_ns.begin() + seat.first_rank;
    finishes.push_back(*std::max_element(first, first + seat.replicas));
  }
  return finishes;
}

// Frozen work comes in whole samples, so filled devices finish at different times. Moves layers
// from the devices that finish last to those that finish first.
void Improver::EvenOut(Candidate* best) {
  for (bool improved = true; improved && !best->finish_ns.empty();) {
    improved = false;
    const absl::StatusOr<Schedule> order = OrderOf(*best);
    if (!order.ok()) return;
    Candidate start = *best;
    if (start.cut.schedule == nullptr) start.cut.schedule = std::make_shared<Schedule>(*order);
    const std::vector<Nanos> finishes = FinishesOf(start);
    const CutCosts costs = BuilderOf(start).CostsOf(start.shape, start.cut, *order);
    const Nanos last = *std::max_element(finishes.begin(), finishes.end());
    const auto moves = CutNeighbours(costs, start.cut)
                           .Below(last + last / kFinishMarginPart, finishes, kMaxEvened);
    for (size_t i = 0; i < moves.size() && i < kMaxEvened && !improved; ++i) {
      Candidate moved = start;
      moved.cut.stages = moves[i];
      improved = Replaces(moved, best);
    }
  }
}

// Takes the best move as long as one helps.
void Improver::Refine(Candidate* best) {
  for (bool improved = true; improved;) {
    improved = false;
    const Candidate start = *best;
    for (size_t b = 0; b < start.cut.stages.size(); ++b) {
      for (size_t cut = 1; cut < start.cut.stages[b].size(); ++cut) {
        for (int move : {-1, 1}) improved |= ImprovesBy(start, b, cut, move, best);
      }
    }
  }
}

bool Improver::ImprovesBy(const Candidate& start, size_t backbone, size_t cut, int move,
                          Candidate* best) {
  Candidate moved = start;
  LayerRange& left = moved.cut.stages[backbone][cut - 1];
  LayerRange& right = moved.cut.stages[backbone][cut];
  left.end += move;
  right.begin += move;
  if (left.empty() || right.empty()) return false;
  return Replaces(moved, best);
}

// If weight gradients and frozen work compete for the same gaps, simulation decides which goes
// first.
void Improver::OrderWeightGradients(Candidate* best) {
  const Candidate start = *best;
  absl::StatusOr<std::vector<Schedule>> orders =
      BuilderOf(start).WeightOrdersOf(start.shape, start.cut);
  if (!orders.ok()) return;
  for (size_t i = 1; i < orders->size(); ++i) ReplacesWith(start, std::move((*orders)[i]), best);
}

bool Improver::ReplacesWith(Candidate candidate, Schedule order, Candidate* best) {
  candidate.cut.schedule = std::make_shared<const Schedule>(std::move(order));
  return Replaces(candidate, best);
}

// Different changes, or the same one repeated, often lead to a candidate that is already simulated.
bool Improver::Replaces(const Candidate& changed, Candidate* best) {
  Candidate& known = (*context_.simulated)[{Order(changed), changed.cut.schedule,
                                            changed.cut.recv_lookahead, changed.cut.stages}];
  // A candidate that was given up takes at least that long.
  if (known.state != Candidate::State::kSimulated && known.step_ns < best->step_ns) {
    if (*context_.budget < context_.work(changed.shape)) return false;
    known = changed;
    // A failure is ignored: the current plan remains.
    if (!context_.simulate(best->step_ns, &known).ok()) known.step_ns = kNever;
  }
  if (known.state != Candidate::State::kSimulated || known.step_ns >= best->step_ns) return false;
  *best = known;
  return true;
}

}  // namespace dpipe
