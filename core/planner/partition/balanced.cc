#include "core/planner/partition/balanced.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/status.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();

// What one stage adds to a partition; in a front, what a whole suffix amounts to.
struct Point {
  Nanos t = 0;  // T0
  Nanos y = 0;  // Y
};

Point Worst(const Point& a, const Point& b) { return {std::max(a.t, b.t), std::max(a.y, b.y)}; }

using Front = std::vector<Point>;  // t increasing, y decreasing

// Keeps `front` sorted and free of dominated points.
void Insert(const Point& p, Front& front) {
  auto at = std::lower_bound(front.begin(), front.end(), p.t,
                             [](const Point& a, Nanos t) { return a.t < t; });
  if (at != front.begin() && std::prev(at)->y <= p.y) return;
  if (at != front.end() && at->t == p.t && at->y <= p.y) return;
  auto last = at;
  while (last != front.end() && last->y >= p.y) ++last;
  at = front.erase(at, last);
  front.insert(at, p);
}

// The table over (stage, first layer).
class Fronts {
 public:
  explicit Fronts(const PartitionProblem& problem)
      : problem_(problem),
        num_layers_(problem.costs->num_layers()),
        num_stages_(problem.num_stages),
        num_slots_(problem.num_micro_batches + 2 * problem.num_stages - 2) {
    ReadCosts();
    upper_bound_ = UpperBound();
    fronts_.assign(num_stages_, std::vector<Front>(num_layers_));
    for (int s = num_stages_ - 1; s >= 0; --s) {
      for (int i = 0; i < num_layers_; ++i) Fill(s, i);
    }
  }

  bool feasible() const { return !fronts_[0][0].empty(); }

  // The cuts of the best partition, the lexicographically smallest where several are best.
  std::vector<LayerRange> Best() const {
    Nanos best = kInfinity;
    for (const Point& p : fronts_[0][0]) best = std::min(best, Objective(p));
    std::vector<LayerRange> stages;
    Point so_far;
    int i = 0;
    for (int s = 0; s < num_stages_; ++s) {
      const int j = FirstCut(s, i, so_far, best);
      so_far = Worst(so_far, stage_[i][j]);
      stages.push_back({i, j});
      i = j;
    }
    return stages;
  }

 private:
  Nanos Objective(const Point& p) const { return num_slots_ * p.t + p.y; }

  bool Fits(int s, int i, int j) const {
    return problem_.memory_limit_bytes == 0 ||
           problem_.costs->MemoryBytes(s, {i, j}) <= problem_.memory_limit_bytes;
  }

  void ReadCosts() {
    stage_.assign(num_layers_, std::vector<Point>(num_layers_ + 1));
    for (int i = 0; i < num_layers_; ++i) {
      const Nanos link = i > 0 ? problem_.costs->LinkNs(i) : 0;
      const Nanos slack = problem_.costs->BackwardNs({0, i});
      for (int j = i + 1; j <= num_layers_; ++j) {
        stage_[i][j].t = std::max(problem_.costs->ComputeNs({i, j}), link);
        stage_[i][j].y = std::max<Nanos>(0, problem_.costs->SyncNs({i, j}) - slack);
      }
    }
  }

  // The ends that leave at least a layer to each later stage; the last stage takes all.
  std::pair<int, int> Ends(int s, int i) const {
    if (s == num_stages_ - 1) return {num_layers_, num_layers_};
    return {i + 1, num_layers_ - (num_stages_ - 1 - s)};
  }

  // T_max of the partition with the least T0, the least Y among those: one scalar pair a state.
  Nanos UpperBound() const {
    std::vector<Point> next(num_layers_ + 1, {kInfinity, kInfinity});
    for (int s = num_stages_ - 1; s >= 0; --s) {
      std::vector<Point> best(num_layers_ + 1, {kInfinity, kInfinity});
      for (int i = 0; i < num_layers_; ++i) {
        const auto [first, last] = Ends(s, i);
        for (int j = first; j <= last; ++j) {
          const Point rest = s == num_stages_ - 1 ? Point{} : next[j];
          if (rest.t == kInfinity || !Fits(s, i, j)) continue;
          const Point p = Worst(stage_[i][j], rest);
          if (std::make_pair(p.t, p.y) < std::make_pair(best[i].t, best[i].y)) best[i] = p;
        }
      }
      next = std::move(best);
    }
    return next[0].t == kInfinity ? kInfinity : Objective(next[0]);
  }

  void Fill(int s, int i) {
    const auto [first, last] = Ends(s, i);
    for (int j = first; j <= last; ++j) {
      const Point& stage = stage_[i][j];
      if (Objective(stage) > upper_bound_ || !Fits(s, i, j)) continue;
      if (s == num_stages_ - 1) {
        Insert(stage, fronts_[s][i]);
        continue;
      }
      for (const Point& rest : fronts_[s + 1][j]) {
        const Point p = Worst(stage, rest);
        if (Objective(p) <= upper_bound_) Insert(p, fronts_[s][i]);
      }
    }
  }

  // The smallest end of stage s with which `best` can still be reached.
  int FirstCut(int s, int i, const Point& so_far, Nanos best) const {
    const auto [first, last] = Ends(s, i);
    for (int j = first; j <= last; ++j) {
      if (!Fits(s, i, j)) continue;
      const Point here = Worst(so_far, stage_[i][j]);
      if (s == num_stages_ - 1) {
        if (Objective(here) <= best) return j;
        continue;
      }
      for (const Point& rest : fronts_[s + 1][j]) {
        if (Objective(Worst(here, rest)) <= best) return j;
      }
    }
    DPIPE_CHECK(false) << "no cut of stage " << s << " reaches the optimum the table promised";
    return last;
  }

  const PartitionProblem& problem_;
  const int num_layers_;
  const int num_stages_;
  const int num_slots_;
  std::vector<std::vector<Point>> stage_;  // by first layer and end
  Nanos upper_bound_ = kInfinity;
  std::vector<std::vector<Front>> fronts_;  // by stage and first layer
};

// The least peak memory, over all partitions, of the device that needs most: for the error message.
int64_t LeastPeakMemory(const PartitionProblem& problem) {
  const int num_layers = problem.costs->num_layers();
  const int num_stages = problem.num_stages;
  std::vector<int64_t> next(num_layers + 1, kInfinity);
  next[num_layers] = 0;
  for (int s = num_stages - 1; s >= 0; --s) {
    std::vector<int64_t> best(num_layers + 1, kInfinity);
    for (int i = 0; i < num_layers; ++i) {
      for (int j = i + 1; j <= num_layers; ++j) {
        if (next[j] == kInfinity) continue;
        best[i] = std::min(best[i], std::max(next[j], problem.costs->MemoryBytes(s, {i, j})));
      }
    }
    next = std::move(best);
  }
  return next[0];
}

}  // namespace

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const Fronts fronts(problem);
  if (!fronts.feasible()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no partition into ", problem.num_stages,
        " stages fits in memory: the most even one needs ", FormatBytes(LeastPeakMemory(problem)),
        " on a device and the limit is ", FormatBytes(problem.memory_limit_bytes)));
  }
  return ScorePartition(problem, fronts.Best());
}

}  // namespace dpipe
