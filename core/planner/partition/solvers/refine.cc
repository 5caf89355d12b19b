#include "core/planner/partition/solvers/refine.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/planner/partition/solvers/min_max.h"

namespace dpipe {
namespace {

using Cuts = std::vector<int>;  // 0, then the ends of the stages

std::vector<LayerRange> StagesOf(const Cuts& cuts) {
  std::vector<LayerRange> stages;
  for (size_t k = 1; k < cuts.size(); ++k) stages.push_back({cuts[k - 1], cuts[k]});
  return stages;
}

struct Quality {
  int64_t excess_bytes = 0;
  Nanos largest = 0;
  double squares = 0;

  friend bool operator<(const Quality& a, const Quality& b) {
    return std::tie(a.excess_bytes, a.largest, a.squares) <
           std::tie(b.excess_bytes, b.largest, b.squares);
  }
};

class Refinement {
 public:
  explicit Refinement(const PartitionProblem& problem)
      : problem_(problem),
        costs_(*problem.costs),
        plain_(SeatsOfDevices(problem, problem.recompute == Recompute::kFull)) {}

  std::vector<LayerRange> Run() {
    Cuts best = Improve(EvenInLayers());
    const Cuts other = Improve(EvenInTime());
    if (Judge(other) < Judge(best)) best = other;
    return StagesOf(best);
  }

 private:
  Cuts EvenInLayers() const {
    Cuts cuts = {0};
    const int64_t count = costs_.num_layers();
    for (int s = 1; s <= problem_.num_stages(); ++s) {
      cuts.push_back(static_cast<int>(s * count / problem_.num_stages()));
    }
    return cuts;
  }

  // Minimises the largest stage time on the first device's seat.
  Cuts EvenInTime() const {
    Cuts cuts = {0};
    for (const LayerRange& layers : MinimizeLargestStage(
             costs_.num_layers(), problem_.num_stages(),
             [&](int, LayerRange range) { return costs_.ComputeNs(plain_[0], range); })) {
      cuts.push_back(layers.end);
    }
    return cuts;
  }

  // A device's contribution to the quality.
  struct Load {
    int64_t excess_bytes = 0;
    Nanos sum = 0;
  };

  Load LoadOf(int d) const {
    DeviceSeat seat = plain_[d];
    Load load;
    const int64_t limit = costs_.MemoryLimitBytes(seat);
    if (limit != 0) {
      int64_t excess = costs_.MemoryBytes(d, seat, held_[d]) - limit;
      if (excess > 0 && problem_.recompute == Recompute::kAuto) {
        seat.recompute = true;
        excess = costs_.MemoryBytes(d, seat, held_[d]) - limit;
      }
      load.excess_bytes = std::max<int64_t>(0, excess);
    }
    for (const HeldStage& stage : held_[d]) load.sum += costs_.ComputeNs(seat, stage.layers);
    return load;
  }

  // Judges the cuts. Reevaluates only devices with a stage that differs from the cuts judged last.
  Quality Judge(const Cuts& cuts) {
    const std::vector<LayerRange> stages = StagesOf(cuts);
    if (held_.empty()) {
      held_ = HeldStages(problem_, stages);
      loads_.assign(held_.size(), {-1, 0});
    }
    Quality quality;
    for (size_t d = 0; d < held_.size(); ++d) {
      bool is_known = loads_[d].excess_bytes >= 0;
      for (HeldStage& stage : held_[d]) {
        if (stage.layers == stages[stage.stage]) continue;
        stage.layers = stages[stage.stage];
        is_known = false;
      }
      if (!is_known) loads_[d] = LoadOf(static_cast<int>(d));
      const Nanos sum = loads_[d].sum;
      quality.excess_bytes += loads_[d].excess_bytes;
      quality.largest = std::max(quality.largest, sum);
      quality.squares += static_cast<double>(sum) * static_cast<double>(sum);
    }
    return quality;
  }

  static bool IsValid(const Cuts& cuts) {
    for (size_t k = 1; k < cuts.size(); ++k) {
      if (cuts[k] <= cuts[k - 1]) return false;
    }
    return true;
  }

  Cuts Improve(Cuts cuts) {
    Quality quality = Judge(cuts);
    while (TryMoves(1, cuts, quality) || TryMoves(problem_.num_stages() - 1, cuts, quality)) {
    }
    return cuts;
  }

  // Makes the first improving move of a run of at most `longest` cuts. Returns false if there is
  // none.
  bool TryMoves(int longest, Cuts& cuts, Quality& quality) {
    const int last = static_cast<int>(cuts.size()) - 2;
    for (int length = 1; length <= longest; ++length) {
      for (int first = 1; first + length - 1 <= last; ++first) {
        for (int step : {1, -1, 2, -2, 4, -4, 8, -8}) {
          Cuts moved = cuts;
          for (int k = first; k < first + length; ++k) moved[k] += step;
          if (!IsValid(moved)) continue;
          const Quality judged = Judge(moved);
          if (!(judged < quality)) continue;
          cuts = std::move(moved);
          quality = judged;
          return true;
        }
      }
    }
    return false;
  }

  const PartitionProblem& problem_;
  const StageCosts& costs_;
  const std::vector<DeviceSeat> plain_;
  std::vector<std::vector<HeldStage>> held_;  // by device, of the cuts judged last
  std::vector<Load> loads_;                   // by device
};

}  // namespace

absl::StatusOr<Partition> PartitionByRefinement(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  return FinishPartition(problem, Refinement(problem).Run());
}

}  // namespace dpipe
