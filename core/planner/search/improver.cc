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

// Of one candidate: how many orders, and how many cuts by work and by makespan, are judged at most
// in a turn, and what part of its budget each turn may take.
constexpr int kOrders = 200;
constexpr int kCutsByWork = 4000;
constexpr int kCutsByMakespan = 600;
constexpr double kOrdersShare = 0.15;
constexpr double kCutsShare = 0.1;
// What they take, in simulated instructions: a list schedule a slot, a makespan so many slots.
constexpr int kSlotsOfMakespan = 20;
constexpr int kCutsOfInstruction = 4;
// How many slots before the pass that needs it a message is asked for, if not 1.
constexpr int kLookaheads[] = {2, 3, 5, 12, 30};
// Rounds of justification, the lists placed in each, and what placing one takes a slot.
constexpr int kJustifyRounds = 4;
constexpr int kLists = 400;
constexpr int kLeastLists = 5;
constexpr int kListsOfSlot = 1;
constexpr double kListsShare = 0.3;
// Cuts that are simulated to even out when devices are done.
constexpr size_t kEvened = 100;
// How much later than now devices may be done in these by what is known without simulation, as
// frozen work is then shared out anew: a part of the step.
constexpr int kLastShare = 100;
// What an order takes of a step that it sets.
constexpr double kOfStep = 0.95;
// Moves of passes in a joint search at most; they come out of a separate allowance, not of the
// budget. A move looks at all slots: of orders with more than so many it counts as several.
constexpr int kMoves = 60000;
constexpr int64_t kSlotsOfMove = 1536;  // and, as long orders have less to gain, by the square
// How much longer than its bound a step may be for a shorter order not to be looked for.
constexpr double kAtBound = 1.002;
// Of a candidate that has no plan.
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

// Otherwise its bound does, or frozen work that fills gaps: its order, shorter, would have more or
// longer ones instead.
bool Improver::OrderSetsStep(const Candidate& candidate) {
  if (IsAtBound(candidate)) return false;
  if (!context_.pairs->builder().fills()) return true;
  const absl::StatusOr<Schedule> order = OrderOf(candidate);
  if (!order.ok()) return false;
  const PassGraph graph(*order,
                        BuilderOf(candidate).TimesOf(candidate.shape, candidate.cut, *order));
  const PassSequences sequences(graph, graph.ListBy(graph.OwnTimes()));
  return static_cast<double>(sequences.makespan_ns()) >
         kOfStep * static_cast<double>(candidate.step_ns);
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
  const std::vector<int> room = BuilderOf(start).RoomFor(start.shape, start.cut, *order);
  TuneOrderOptions options;
  options.costs = StagePassCosts(*order, start.cut, start.shape, *context_.cost);
  for (bool use_room : {false, true}) {
    options.max_tried = Afford(kOrders, NumSlots(*order), kOrdersShare);
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

// With the order made for the new times, and with the one that they were moved for.
void Improver::Balance(bool by_makespan, Candidate* best) {
  absl::StatusOr<Schedule> order = OrderOf(*best);
  if (!order.ok()) return;
  const int count =
      by_makespan ? Afford(kCutsByMakespan, NumSlots(*order) / kSlotsOfMakespan + 1, kCutsShare)
                  : Afford(kCutsByWork / kCutsOfInstruction, 1, kCutsShare) * kCutsOfInstruction;
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

// Orders and cuts in turn: a new order moves what limits the makespan, and so do layers.
void Improver::Justify(Candidate* best) {
  Candidate current = *best;
  for (int round = 0; round < kJustifyRounds; ++round) {
    absl::StatusOr<Schedule> order = OrderOf(current);
    if (!order.ok()) return;
    const int lists = Afford(kLists, kListsOfSlot * NumSlots(*order), kListsShare);
    if (lists < kLeastLists) return;
    const PlanBuilder& builder = BuilderOf(current);
    JustifyOptions options;
    options.times = builder.TimesOf(current.shape, current.cut, *order);
    options.max_placed = lists;
    Schedule justified = JustifyOrder(*order, options);
    ReplacesWith(current, justified, best);
    const int count = Afford(kCutsByMakespan, NumSlots(*order) / kSlotsOfMakespan + 1, kCutsShare);
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
  const int64_t times = (NumSlots(*order) + kSlotsOfMove - 1) / kSlotsOfMove;
  const int64_t price = times * times;
  Candidate moved = *best;
  moved.cut.schedule = std::make_shared<const Schedule>(*std::move(order));
  // What the two ways find differs much, and neither is the better one of all.
  for (bool wanders : {true, false}) {
    JointOptions options;
    options.wanders = wanders;
    const int64_t allowed = std::min<int64_t>(kMoves, *context_.moves / (1 + wanders));
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

// Where passes are shorter than the messages that they are to hide.
void Improver::ReceiveEarlier(Candidate* best) {
  for (int lookahead : kLookaheads) {
    Candidate changed = *best;
    changed.cut.recv_lookahead = lookahead;
    Replaces(changed, best);
  }
}

// By schedule device: when the last of its ranks is done.
std::vector<Nanos> Improver::FinishesOf(const Candidate& candidate) const {
  std::vector<Nanos> finishes;
  for (const DeviceSeat& seat : SeatsOf(candidate.cut)) {
    const auto first = candidate.finish_ns.begin() + seat.first_rank;
    finishes.push_back(*std::max_element(first, first + seat.replicas));
  }
  return finishes;
}

// Frozen work comes in whole samples, so filled devices are not done at one time: layers moved from
// those that are done last to those that are done first.
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
    const auto moves =
        CutNeighbours(costs, start.cut).Below(last + last / kLastShare, finishes, kEvened);
    for (size_t i = 0; i < moves.size() && i < kEvened && !improved; ++i) {
      Candidate moved = start;
      moved.cut.stages = moves[i];
      improved = Replaces(moved, best);
    }
  }
}

// The best move first, while one helps.
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

// Where weight gradients and frozen work compete for the same gaps, simulation says which goes
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

// Another way, or the same way once more, often comes by what has been simulated before.
bool Improver::Replaces(const Candidate& changed, Candidate* best) {
  Candidate& known = (*context_.simulated)[{Order(changed), changed.cut.schedule,
                                            changed.cut.recv_lookahead, changed.cut.stages}];
  // What was given up takes at least that long.
  if (known.state != Candidate::State::kSimulated && known.step_ns < best->step_ns) {
    if (*context_.budget < context_.work(changed.shape)) return false;
    known = changed;
    // One that fails is passed over: the plan without it is there.
    if (!context_.simulate(best->step_ns, &known).ok()) known.step_ns = kNever;
  }
  if (known.state != Candidate::State::kSimulated || known.step_ns >= best->step_ns) return false;
  *best = known;
  return true;
}

}  // namespace dpipe
