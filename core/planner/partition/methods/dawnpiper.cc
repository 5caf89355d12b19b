#include "core/planner/partition/methods/dawnpiper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/stage_windows.h"

namespace dpipe {
namespace {

class Bisection {
 public:
  Bisection(const PartitionProblem& problem, const StageWindows& windows)
      : problem_(problem), windows_(windows), seats_(SeatsOfDevices(problem, false)) {
    stages_.resize(problem.num_stages());
  }

  bool IsFeasible() const {
    return EndsFrom(0, problem_.num_stages(), 0)[problem_.costs->num_layers()];
  }

  std::vector<LayerRange> Run() {
    Cut(0, problem_.num_stages(), {0, problem_.costs->num_layers()});
    return stages_;
  }

 private:
  // Returns [c]: true if layers [begin, c) can be placed on stages a .. b-1.
  std::vector<bool> EndsFrom(int a, int b, int begin) const {
    const int count = problem_.costs->num_layers();
    std::vector<bool> reached(count + 1, false);
    reached[begin] = true;
    for (int s = a; s < b; ++s) {
      std::vector<bool> next(count + 1, false);
      for (int i = begin; i < count; ++i) {
        if (!reached[i]) continue;
        for (int j = windows_.FirstEnd(s, i); j <= windows_.LastEnd(s, i); ++j) next[j] = true;
      }
      reached = std::move(next);
    }
    return reached;
  }

  // Returns [c]: true if layers [c, end) can be placed on stages a .. b-1.
  std::vector<bool> BeginsTo(int a, int b, int end) const {
    std::vector<bool> reached(problem_.costs->num_layers() + 1, false);
    reached[end] = true;
    for (int s = b - 1; s >= a; --s) {
      std::vector<bool> before(reached.size(), false);
      for (int i = 0; i < end; ++i) {
        const int last = std::min(end, windows_.LastEnd(s, i));
        for (int j = windows_.FirstEnd(s, i); j <= last && !before[i]; ++j) before[i] = reached[j];
      }
      reached = std::move(before);
    }
    return reached;
  }

  void Cut(int a, int b, LayerRange layers) {
    if (b - a == 1) {
      stages_[a] = layers;
      return;
    }
    const int middle = a + (b - a) / 2;
    const std::vector<bool> left_fits = EndsFrom(a, middle, layers.begin);
    const std::vector<bool> right_fits = BeginsTo(middle, b, layers.end);
    int best_cut = -1;
    double best = 0;
    for (int c = layers.begin + 1; c < layers.end; ++c) {
      if (!left_fits[c] || !right_fits[c]) continue;
      const double cost = Cost(a, middle, b, {layers.begin, c}, {c, layers.end});
      if (best_cut >= 0 && cost >= best) continue;
      best = cost;
      best_cut = c;
    }
    DPIPE_CHECK(best_cut >= 0) << "stages " << a << " to " << b << " have no cut";
    Cut(a, middle, {layers.begin, best_cut});
    Cut(middle, b, {best_cut, layers.end});
  }

  double Cost(int a, int middle, int b, LayerRange left, LayerRange right) const {
    const StageCosts& costs = *problem_.costs;
    const double link = costs.LinkNs(left.end, seats_[middle - 1], seats_[middle]);
    return std::max({MeanCompute(a, middle, left), MeanCompute(middle, b, right), link});
  }

  // Returns the mean time of the layers over stages a .. b-1 if layers were divisible: 1 / (sum of
  // the speeds).
  double MeanCompute(int a, int b, LayerRange layers) const {
    double speed = 0;
    for (int s = a; s < b; ++s) {
      const double time = problem_.costs->ComputeNs(seats_[s], layers);
      if (time <= 0) return 0;
      speed += 1 / time;
    }
    return 1 / speed;
  }

  const PartitionProblem& problem_;
  const StageWindows& windows_;
  const std::vector<DeviceSeat> seats_;
  std::vector<LayerRange> stages_;
};

}  // namespace

absl::StatusOr<Partition> PartitionDawnPiper(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_RETURN_IF_ERROR(CheckStraight(problem, "dawnpiper"));
  const StageWindows windows(problem);
  Bisection bisection(problem, windows);
  if (!bisection.IsFeasible()) return windows.NothingFitsError();
  return FinishPartition(problem, bisection.Run());
}

}  // namespace dpipe
