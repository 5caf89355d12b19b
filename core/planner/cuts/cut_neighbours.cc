#include "core/planner/cuts/cut_neighbours.h"

#include <algorithm>
#include <utility>

namespace dpipe {
namespace {

constexpr int kSteps[] = {-1, 1, -2, 2, -3, 3};
constexpr int kMaxBoundaries = 2;
// Pairs are not considered if there are more shifts than this.
constexpr size_t kMaxPairedShifts = 500;

bool HasEmptyStage(const CutNeighbours::Stages& stages) {
  for (const std::vector<LayerRange>& of : stages) {
    for (const LayerRange& layers : of) {
      if (layers.begin >= layers.end) return true;
    }
  }
  return false;
}

}  // namespace

CutNeighbours::CutNeighbours(const CutCosts& costs, const PipelineCut& cut)
    : costs_(costs), cut_(cut), schedule_(*cut.schedule) {
  for (int b = 0; b < static_cast<int>(cut_.stages.size()); ++b) {
    const int boundaries = static_cast<int>(cut_.stages[b].size()) - 1;
    for (int first = 1; first <= boundaries; ++first) {
      for (int length = 1; length <= kMaxBoundaries; ++length) {
        if (first + length - 1 > boundaries) break;
        for (int step : kSteps) AddShift(b, first, length, step);
      }
    }
  }
}

int CutNeighbours::BackboneOf(int stage) const {
  return schedule_.chains()[schedule_.ChainOf(stage)].backbone;
}

// Returns the position in its chain. A stage of a forward-only lap has the position of its
// counterpart with gradients.
int CutNeighbours::PositionOf(int stage) const {
  return (stage - schedule_.FirstStageOf(schedule_.ChainOf(stage))) %
         static_cast<int>(cut_.stages[BackboneOf(stage)].size());
}

PassCosts CutNeighbours::CostsOf(const Stages& stages, int stage) const {
  const int b = BackboneOf(stage);
  PassCosts costs = costs_.Passes(b, stages[b][PositionOf(stage)], schedule_.DeviceOf(stage));
  if (schedule_.IsForwardOnly(stage)) costs.input_grad = costs.weight_grad = 0;
  return costs;
}

std::vector<Nanos> CutNeighbours::Work() const {
  std::vector<Nanos> work(schedule_.num_devices(), 0);
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const PassCosts costs = CostsOf(cut_.stages, s);
    work[schedule_.DeviceOf(s)] += schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches *
                                   (costs.forward + costs.input_grad + costs.weight_grad);
  }
  return work;
}

void CutNeighbours::Apply(const Shift& shift, Stages* stages) const {
  std::vector<LayerRange>& of = (*stages)[shift.backbone];
  for (int k = shift.first; k < shift.first + shift.length; ++k) {
    of[k - 1].end += shift.step;
    of[k].begin += shift.step;
  }
}

void CutNeighbours::AddShift(int backbone, int first, int length, int step) {
  Shift shift{backbone, first, length, step, std::vector<Nanos>(schedule_.num_devices(), 0)};
  Stages stages = cut_.stages;
  Apply(shift, &stages);
  if (HasEmptyStage(stages)) return;
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const int k = PositionOf(s);
    if (BackboneOf(s) != backbone || k < first - 1 || k >= first + length) continue;
    const PassCosts before = CostsOf(cut_.stages, s), after = CostsOf(stages, s);
    shift.more_ns[schedule_.DeviceOf(s)] +=
        schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches *
        (after.forward - before.forward + after.input_grad - before.input_grad + after.weight_grad -
         before.weight_grad);
  }
  shifts_.push_back(std::move(shift));
}

CutNeighbours::Stages CutNeighbours::StagesOf(const Pair& pair) const {
  Stages stages = cut_.stages;
  Apply(shifts_[pair.one], &stages);
  if (pair.other != kNone) Apply(shifts_[pair.other], &stages);
  return stages;
}

Nanos CutNeighbours::LastOf(const Pair& pair, const std::vector<Nanos>& finish_ns) const {
  Nanos last = 0;
  for (size_t d = 0; d < finish_ns.size(); ++d) {
    Nanos finish = finish_ns[d] + shifts_[pair.one].more_ns[d];
    if (pair.other != kNone) finish += shifts_[pair.other].more_ns[d];
    last = std::max(last, finish);
  }
  return last;
}

bool CutNeighbours::IsSound(const Stages& stages) const {
  if (HasEmptyStage(stages)) return false;
  for (int d = 0; d < schedule_.num_devices(); ++d) {
    if (costs_.FreeBytes(d, stages).value_or(0) < 0) return false;
  }
  return true;
}

std::vector<CutNeighbours::Stages> CutNeighbours::Below(Nanos limit_ns,
                                                        const std::vector<Nanos>& finish_ns,
                                                        int num_pairs) const {
  std::vector<Pair> pairs;
  const auto add = [&](int one, int other) {
    const Nanos last_ns = LastOf({0, one, other}, finish_ns);
    if (last_ns < limit_ns) pairs.push_back({last_ns, one, other});
  };
  for (int i = 0; i < static_cast<int>(shifts_.size()); ++i) {
    add(i, kNone);
    if (shifts_.size() > kMaxPairedShifts) continue;
    for (int j = i + 1; j < static_cast<int>(shifts_.size()); ++j) add(i, j);
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.last_ns < b.last_ns; });
  std::vector<Stages> found;
  for (const Pair& pair : pairs) {
    if (pair.other != kNone && num_pairs <= 0) continue;
    Stages stages = StagesOf(pair);
    if (stages == cut_.stages || !IsSound(stages)) continue;
    found.push_back(std::move(stages));
    num_pairs -= pair.other != kNone;
  }
  return found;
}

}  // namespace dpipe
