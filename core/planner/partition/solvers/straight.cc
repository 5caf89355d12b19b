#include "core/planner/partition/solvers/straight.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/stage_windows.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();

struct Point {
  Nanos t = 0;  // T0
  Nanos z = 0;  // Z
};

using Front = std::vector<Point>;  // t increasing, z decreasing

// Keeps `front` sorted and free of dominated points.
void Insert(const Point& p, Front& front) {
  auto at = std::lower_bound(front.begin(), front.end(), p.t,
                             [](const Point& a, Nanos t) { return a.t < t; });
  if (at != front.begin() && std::prev(at)->z <= p.z) return;
  if (at != front.end() && at->t == p.t && at->z <= p.z) return;
  auto last = at;
  while (last != front.end() && last->z >= p.z) ++last;
  at = front.erase(at, last);
  front.insert(at, p);
}

// The table over (stage, first layer).
class Fronts {
 public:
  Fronts(const PartitionProblem& problem, const StageWindows& windows)
      : problem_(problem),
        costs_(*problem.costs),
        windows_(windows),
        num_layers_(costs_.num_layers()),
        num_stages_(problem.num_stages()),
        num_slots_(problem.num_micro_batches + 2 * num_stages_ - 2) {
    ReadLinksAndSlack();
    upper_bound_ = LeastBottleneck();
    if (upper_bound_ == kInfinity) return;
    fronts_.assign(num_stages_, std::vector<Front>(num_layers_));
    for (int s = num_stages_ - 1; s >= 0; --s) {
      for (int i = s == 0 ? 0 : s; i < (s == 0 ? 1 : num_layers_); ++i) Fill(s, i);
    }
  }

  bool feasible() const { return upper_bound_ != kInfinity; }

  // Returns the cuts of the best partition; of several best ones, the lexicographically smallest
  // cuts.
  std::vector<LayerRange> Best() const {
    Nanos best = kInfinity;
    for (const Point& p : fronts_[0][0]) best = std::min(best, Objective(p.t, p.z));
    std::vector<LayerRange> stages;
    Prefix so_far;
    for (int s = 0, i = 0; s < num_stages_; ++s) {
      const int j = FirstCut(s, i, so_far, best);
      so_far = Extend(so_far, s, i, j);
      stages.push_back({i, j});
      i = j;
    }
    return stages;
  }

 private:
  struct Prefix {  // sums over the stages before one
    Nanos t = 0, y = 0, slack = 0;
  };

  Nanos Objective(Nanos t, Nanos y) const { return num_slots_ * t + std::max<Nanos>(0, y); }
  Nanos Compute(int s, int i, int j) const {
    return costs_.ComputeNs(windows_.SeatOf(s, i, j), {i, j});
  }
  Nanos Backward(int s, int i, int j) const {
    return costs_.BackwardNs(windows_.SeatOf(s, i, j), {i, j});
  }
  Nanos Sync(int s, int i, int j) const { return costs_.SyncNs(copies_[s], {i, j}); }

  void ReadLinksAndSlack() {
    const std::vector<DeviceSeat> seats = SeatsOfDevices(problem_, false);
    for (const DeviceSeat& seat : seats) copies_.push_back({seat});
    link_.assign(num_stages_, std::vector<Nanos>(num_layers_, 0));
    least_slack_ = most_slack_ = link_;
    for (int s = 1; s < num_stages_; ++s) {
      for (int i = s; i < num_layers_; ++i) {
        link_[s][i] = costs_.LinkNs(i, seats[s - 1], seats[s]);
        const Nanos back = costs_.BackwardNs(seats[s - 1], {0, i});
        least_slack_[s][i] = s == 1 ? back : std::min(least_slack_[s - 1][i], back);
        // Each stage's share is rounded up separately.
        most_slack_[s][i] = std::max(most_slack_[s - 1][i], back + s);
      }
    }
  }

  // Returns T_max of the partition with the minimum T0; infinity if none fits.
  Nanos LeastBottleneck() {
    std::vector<Nanos> next(num_layers_ + 1, kInfinity);
    next[num_layers_] = 0;
    std::vector<std::vector<int>> end(num_stages_, std::vector<int>(num_layers_, 0));
    for (int s = num_stages_ - 1; s >= 0; --s) {
      std::vector<Nanos> best(num_layers_ + 1, kInfinity);
      for (int i = 0; i < num_layers_; ++i) {
        for (int j = windows_.FirstEnd(s, i); j <= windows_.LastEnd(s, i); ++j) {
          const Nanos t = std::max(Compute(s, i, j), link_[s][i]);
          if (t >= best[i]) break;  // longer stages take longer
          if (next[j] >= best[i]) continue;
          best[i] = std::max(t, next[j]);
          end[s][i] = j;
        }
      }
      next = std::move(best);
    }
    if (next[0] == kInfinity) return kInfinity;
    Prefix all;
    for (int s = 0, i = 0; s < num_stages_; ++s) {
      all = Extend(all, s, i, end[s][i]);
      i = end[s][i];
    }
    return Objective(all.t, all.y);
  }

  Prefix Extend(const Prefix& p, int s, int i, int j) const {
    return {std::max({p.t, Compute(s, i, j), link_[s][i]}), std::max(p.y, Sync(s, i, j) - p.slack),
            p.slack + Backward(s, i, j)};
  }

  void Fill(int s, int i) {
    Front& front = fronts_[s][i];
    const auto add = [&](Point p) {
      if (Objective(p.t, p.z - most_slack_[s][i]) > upper_bound_) return;
      p.z = std::max(p.z, least_slack_[s][i]);  // hidden in any case
      Insert(p, front);
    };
    for (int j = windows_.FirstEnd(s, i); j <= windows_.LastEnd(s, i); ++j) {
      const Nanos t = std::max(Compute(s, i, j), link_[s][i]);
      if (Objective(t, 0) > upper_bound_) break;
      const Nanos sync = Sync(s, i, j);
      if (s == num_stages_ - 1) {
        add({t, sync});
        continue;
      }
      if (fronts_[s + 1][j].empty()) continue;
      const Nanos back = Backward(s, i, j);
      for (const Point& rest : fronts_[s + 1][j]) {
        add({std::max(t, rest.t), std::max(sync, rest.z - back)});
      }
    }
  }

  // Returns the smallest end of stage s with which `best` can still be reached.
  int FirstCut(int s, int i, const Prefix& so_far, Nanos best) const {
    for (int j = windows_.FirstEnd(s, i); j <= windows_.LastEnd(s, i); ++j) {
      const Prefix here = Extend(so_far, s, i, j);
      if (s == num_stages_ - 1) {
        if (Objective(here.t, here.y) <= best) return j;
        continue;
      }
      for (const Point& rest : fronts_[s + 1][j]) {
        const Nanos y = std::max(here.y, rest.z - here.slack);
        if (Objective(std::max(here.t, rest.t), y) <= best) return j;
      }
    }
    DPIPE_CHECK(false) << "no cut of stage " << s << " reaches the optimum the table promised";
    return i;
  }

  const PartitionProblem& problem_;
  const StageCosts& costs_;
  const StageWindows& windows_;
  const int num_layers_;
  const int num_stages_;
  const int num_slots_;
  std::vector<std::vector<DeviceSeat>> copies_;  // by stage, one each
  std::vector<std::vector<Nanos>> link_;         // into stage s at cut i
  // Bounds on the backward time of layers [0, i) in the stages before s.
  std::vector<std::vector<Nanos>> least_slack_, most_slack_;
  Nanos upper_bound_ = kInfinity;
  std::vector<std::vector<Front>> fronts_;  // by stage and first layer
};

}  // namespace

absl::StatusOr<Partition> PartitionStraight(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_CHECK(IsStraight(problem));
  const StageWindows windows(problem);
  const Fronts fronts(problem, windows);
  if (!fronts.feasible()) return windows.NothingFitsError();
  const std::vector<LayerRange> stages = fronts.Best();
  std::vector<DeviceSeat> seats;
  for (int s = 0; s < problem.num_stages(); ++s) {
    seats.push_back(windows.SeatOf(s, stages[s].begin, stages[s].end));
  }
  return ScorePartition(problem, stages, std::move(seats));
}

}  // namespace dpipe
