#include "core/planner/cuts/cut_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/planner/partition/boundary_traffic.h"
#include "core/planner/partition/methods/uniform.h"
#include "core/planner/partition/solvers/min_max.h"

namespace dpipe {
namespace {

using Stages = std::vector<LayerRange>;

// Maximum number of slots visited to judge cuts, about 5 ns each.
constexpr int64_t kMaxSlots = 300'000;
constexpr int kMaxJudged = 1000;
// An order of more slots takes milliseconds to make. Then at most this many cuts get their own.
constexpr int kLongOrder = 3000;
constexpr size_t kMaxLongOrders = 2;
constexpr int kSteps[] = {1, -1, 2, -2, 4, -4};
constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

class Chooser {
 public:
  Chooser(const CutChoice& choice, const Partition& partition)
      : choice_(choice), start_(partition) {}

  std::vector<JudgedCut> Run() {
    const StageCosts& costs = *choice_.problem->costs;
    const DeviceSeat& seat = start_.seats[0];
    std::vector<Partition> cuts = {start_};
    const absl::StatusOr<Partition> even = PartitionUniform(*choice_.problem);
    Offer(even, &cuts);
    Offer(FinishPartition(*choice_.problem,
                          MinimizeLargestStage(costs.num_layers(), choice_.problem->num_stages(),
                                               [&](int, LayerRange layers) {
                                                 return costs.ComputeNs(seat, layers);
                                               })),
          &cuts);
    const size_t num_starts = cuts.size();
    for (size_t i = 0; i < num_starts; ++i) {
      OrderedStep step(*choice_.schedule);
      Offer(Shortened(cuts[i], kMaxSlots / 2 / num_starts, &step), &cuts);
    }
    const std::vector<JudgedCut> judged = JudgedOf(cuts);
    JudgedCut best = *std::min_element(
        judged.begin(), judged.end(),
        [](const JudgedCut& a, const JudgedCut& b) { return a.step_ns < b.step_ns; });
    if (best.order) {
      OrderedStep step(*best.order);
      std::vector<Partition> again = {best.cut};
      Offer(Shortened(best.cut, kMaxSlots / 2, &step), &again);
      if (again.size() > 1) {
        JudgedCut other = Judge(again[1]);
        if (other.step_ns < best.step_ns) best = std::move(other);
      }
    }
    std::vector<JudgedCut> chosen = {std::move(best)};
    if (even.ok() && chosen[0].cut.stages != even->stages) {
      const auto known = std::find_if(judged.begin(), judged.end(), [&](const JudgedCut& other) {
        return other.cut.stages == even->stages;
      });
      JudgedCut other = known == judged.end() ? Judge(*even) : *known;
      if (other.step_ns != kNever) chosen.push_back(std::move(other));
    }
    return chosen;
  }

 private:
  OrderedStageTimes TimesOf(const Partition& cut) const {
    const Schedule& schedule = *choice_.schedule;
    const StageCosts& costs = *choice_.problem->costs;
    OrderedStageTimes times;
    for (int c = 0; c < static_cast<int>(schedule.chains().size()); ++c) {
      const std::vector<int>& devices = schedule.chains()[c].devices;
      const int count = static_cast<int>(devices.size());
      const std::vector<BoundaryTraffic> traffic = TrafficOf(costs.values(), cut.stages, devices);
      const auto transfer_ns = [&](int from, int to, int64_t bytes) {
        if (from < 0 || to < 0 || from >= count || to >= count) return Nanos{0};
        return costs.TransferNs(bytes, 0, cut.seats[devices[from]], cut.seats[devices[to]]);
      };
      for (int k = 0; k < count; ++k) {
        const LayerRange layers = cut.stages[k];
        const DeviceSeat& seat = cut.seats[devices[k]];
        times.passes.push_back(choice_.passes(layers, seat));
        times.optimizer_ns.push_back(choice_.optimizer_ns(layers, seat));
        const int64_t forward_bytes = k + 1 < count ? traffic[k].forward_bytes : 0;
        const int64_t gradient_bytes = k > 0 ? traffic[k - 1].gradient_bytes : 0;
        times.forward_delay_ns.push_back(transfer_ns(k, k + 1, forward_bytes));
        times.gradient_delay_ns.push_back(transfer_ns(k, k - 1, gradient_bytes));
        std::vector<DeviceSeat> copies;
        for (int device : choice_.problem->devices_of_stage[k]) copies.push_back(cut.seats[device]);
        times.sync_ns.push_back(costs.SyncNs(copies, layers));
      }
    }
    return times;
  }

  // Adds a new cut. Ignores cuts with other replicas.
  void Offer(absl::StatusOr<Partition> cut, std::vector<Partition>* cuts) const {
    if (!cut.ok()) return;
    for (size_t d = 0; d < start_.seats.size(); ++d) {
      if (cut->seats[d].first_rank != start_.seats[d].first_rank ||
          cut->seats[d].replicas != start_.seats[d].replicas) {
        return;
      }
    }
    for (const Partition& known : *cuts) {
      if (known.stages == cut->stages) return;
    }
    cuts->push_back(*std::move(cut));
  }

  // Judges a cut by the order of its plan.
  JudgedCut Judge(const Partition& cut) const {
    JudgedCut judged = {cut, absl::nullopt, kNever};
    if (choice_.order_of == nullptr) {
      judged.step_ns = OrderedStep(*choice_.schedule).StepNs(TimesOf(cut));
    } else if (absl::StatusOr<Schedule> order = choice_.order_of(cut); order.ok()) {
      judged.step_ns = OrderedStep(*order).StepNs(TimesOf(cut));
      judged.order = *std::move(order);
    }
    return judged;
  }

  // Judges the cuts. If orders are long, makes one only for the best few by the common order.
  std::vector<JudgedCut> JudgedOf(const std::vector<Partition>& cuts) const {
    OrderedStep common(*choice_.schedule);
    std::vector<std::pair<Nanos, const Partition*>> promising;
    for (const Partition& cut : cuts) promising.emplace_back(0, &cut);
    if (choice_.order_of != nullptr && common.num_slots() > kLongOrder) {
      for (auto& [step_ns, cut] : promising) step_ns = common.StepNs(TimesOf(*cut));
      std::stable_sort(promising.begin(), promising.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      if (promising.size() > kMaxLongOrders) promising.resize(kMaxLongOrders);
    }
    std::vector<JudgedCut> judged;
    for (const auto& [step_ns, cut] : promising) judged.push_back(Judge(*cut));
    return judged;
  }

  // Improves the cut by moves, visiting about `max_slots` slots.
  absl::StatusOr<Partition> Shortened(Partition cut, int64_t max_slots, OrderedStep* step) {
    step_ = step;
    budget_ =
        static_cast<int>(std::min<int64_t>(kMaxJudged, max_slots / std::max(1, step->num_slots())));
    Nanos step_ns = step->StepNs(TimesOf(cut));
    while (budget_ > 0 && (TryOne(&cut, &step_ns) || TryTwo(&cut, &step_ns))) {
    }
    return FinishPartition(*choice_.problem, cut.stages);
  }

  bool TryOne(Partition* cut, Nanos* step_ns) {
    for (int step : kSteps) {
      for (size_t k = 1; k < cut->stages.size(); ++k) {
        if (!Move(k, step, &cut->stages)) continue;
        if (Accept(*cut, step_ns)) return true;
        Move(k, -step, &cut->stages);
      }
    }
    return false;
  }

  bool TryTwo(Partition* cut, Nanos* step_ns) {
    for (size_t k = 1; k < cut->stages.size(); ++k) {
      for (size_t other = k + 1; other < cut->stages.size(); ++other) {
        for (int step : {1, -1}) {
          for (int other_step : {1, -1}) {
            if (!Move(k, step, &cut->stages)) continue;
            if (Move(other, other_step, &cut->stages)) {
              if (Accept(*cut, step_ns)) return true;
              Move(other, -other_step, &cut->stages);
            }
            Move(k, -step, &cut->stages);
          }
        }
      }
    }
    return false;
  }

  // Returns false and changes nothing if a stage would have no layers.
  static bool Move(size_t cut, int step, Stages* stages) {
    LayerRange &before = (*stages)[cut - 1], &after = (*stages)[cut];
    if (before.size() + step < 1 || after.size() - step < 1) return false;
    before.end += step;
    after.begin += step;
    return true;
  }

  bool Accept(const Partition& cut, Nanos* step_ns) {
    if (budget_-- <= 0) return false;
    const Nanos judged = step_->StepNs(TimesOf(cut));
    if (judged >= *step_ns || !CheckMemory(*choice_.problem, cut.stages, cut.seats).ok()) {
      return false;
    }
    *step_ns = judged;
    return true;
  }

  const CutChoice& choice_;
  const Partition& start_;
  OrderedStep* step_ = nullptr;  // judges the current cuts
  int budget_ = 0;               // cuts that may still be judged
};

}  // namespace

std::vector<JudgedCut> ChooseCut(const CutChoice& choice, const Partition& partition) {
  if (partition.stages.size() < 2) return {{partition, absl::nullopt, 0}};
  return Chooser(choice, partition).Run();
}

}  // namespace dpipe
