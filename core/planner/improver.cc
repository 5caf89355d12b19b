#include "core/planner/improver.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/planner/build_plan.h"
#include "core/planner/pipeline_cut.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/tune_order.h"

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
constexpr int kLookaheads[] = {2, 3, 5};
// Rounds of justification, the lists placed in each, and what placing one takes a slot.
constexpr int kJustifyRounds = 4;
constexpr int kLists = 400;
constexpr int kLeastLists = 5;
constexpr int kListsOfSlot = 1;
constexpr double kListsShare = 0.3;

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
  const Candidate plain = BySimulation(candidate);
  *context_.budget += later;
  Candidate tuned = candidate;
  TryOrders(candidate, &tuned);
  Balance(/*by_makespan=*/false, &tuned);
  Balance(/*by_makespan=*/true, &tuned);
  Justify(&tuned);
  ReceiveEarlier(&tuned);
  tuned = BySimulation(tuned);
  return tuned.step_ns < plain.step_ns ? tuned : plain;
}

Candidate Improver::BySimulation(Candidate candidate) {
  if (context_.moves_layers) Refine(&candidate);
  if (context_.pairs->builder().fills()) OrderWeightGradients(&candidate);
  return candidate;
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
    Schedule justified = builder.Justify(current.shape, current.cut, *order, lists);
    ReplacesWith(current, justified, best);
    const int count = Afford(kCutsByMakespan, NumSlots(*order) / kSlotsOfMakespan + 1, kCutsShare);
    current.cut = builder.Balance(current.shape, current.cut, justified, /*by_makespan=*/true,
                                  std::max(1, count));
    current.cut.schedule = std::make_shared<const Schedule>(std::move(justified));
    Candidate moved = current;
    Replaces(&moved, best);
  }
}

// Where passes are shorter than the messages that they are to hide.
void Improver::ReceiveEarlier(Candidate* best) {
  for (int lookahead : kLookaheads) {
    Candidate changed = *best;
    changed.cut.recv_lookahead = lookahead;
    Replaces(&changed, best);
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
  return Replaces(&moved, best);
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
  return Replaces(&candidate, best);
}

bool Improver::Replaces(Candidate* changed, Candidate* best) {
  if (*context_.budget < context_.work(changed->shape)) return false;
  // One that fails is passed over: the plan without it is there.
  if (!context_.simulate(best->step_ns, changed).ok()) return false;
  if (changed->state != Candidate::State::kSimulated || changed->step_ns >= best->step_ns) {
    return false;
  }
  *best = *changed;
  return true;
}

}  // namespace dpipe
