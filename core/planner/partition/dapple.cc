#include "core/planner/partition/dapple.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/planner/partition/replicated.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();
constexpr size_t kFewBlocks = 600;

// What stages so far add up to, and the last of them.
struct Point {
  Nanos sum = 0;      // stages and transfers
  Nanos exposed = 0;  // of the all-reduces
  int begin = 0, replicas = 0;
  int origin = 0;  // in the front of the stages before
};

void Insert(const Point& p, std::vector<Point>& front) {
  for (const Point& q : front) {
    if (q.sum <= p.sum && q.exposed <= p.exposed) return;
  }
  front.erase(
      std::remove_if(front.begin(), front.end(),
                     [&](const Point& q) { return p.sum <= q.sum && p.exposed <= q.exposed; }),
      front.end());
  front.push_back(p);
}

struct Choice {
  Nanos cost = kInfinity;
  std::vector<LayerRange> stages;
  std::vector<int> replicas;
};

class Dapple {
 public:
  explicit Dapple(const PartitionProblem& problem)
      : problem_(problem),
        tables_(problem),
        num_layers_(problem.costs->num_layers()),
        num_stages_(problem.num_stages()),
        num_ranks_(problem.num_ranks()) {}

  Choice Run() {
    const Nanos least = LeastBlock();
    if (least == kInfinity) return {};
    ReadBlocks(least);
    Nanos limit = least;
    while (limit < kInfinity) {
      // Every partition of at least this block costs at least this.
      if (best_.cost < kInfinity && (problem_.num_micro_batches - 1) * limit >= best_.cost) break;
      if (limit > most_) limit = most_;
      Try(limit);
      if (limit >= most_) break;
      limit = NextLimit(limit);
    }
    return best_;
  }

 private:
  Nanos LeastBlock() {
    ReplicatedCosts costs;
    costs.stage = [](const SeatTables::Table& table, const DeviceSeat&, int i, int j) {
      return table.compute[i][j];
    };
    costs.link = [&](int cut, int m) { return tables_.BorderLink(cut, m); };
    const ReplicatedSolution solution = SolveReplicated(problem_, tables_, costs);
    return solution.stages.empty() ? kInfinity : solution.largest;
  }

  // The values that a block can take, if they are few, and the largest.
  void ReadBlocks(Nanos least) {
    most_ = least;
    const auto add = [&](Nanos block) {
      most_ = std::max(most_, block);
      if (block > least && blocks_.size() <= kFewBlocks) blocks_.insert(block);
    };
    for (int m = 0; m < num_ranks_; ++m) {
      for (int cut = 1; cut < num_layers_ && m > 0; ++cut) add(tables_.BorderLink(cut, m));
      std::set<int> choices;
      for (int s = 0; s < num_stages_; ++s) {
        for (int r : tables_.Choices(s, m)) choices.insert(r);
      }
      for (int r : choices) {
        const SeatTables::Table& table = tables_.Of(tables_.SeatAt(m, r));
        for (int i = 0; i < num_layers_; ++i) {
          for (int j = i + 1; j <= num_layers_; ++j) add(table.compute[i][j]);
        }
      }
    }
  }

  Nanos NextLimit(Nanos limit) const {
    if (blocks_.size() > kFewBlocks) return limit + std::max<Nanos>(1, limit / 100);
    const auto next = blocks_.upper_bound(limit);
    return next == blocks_.end() ? kInfinity : *next;
  }

  // The best partition of blocks of at most `limit`, if it beats the best so far.
  void Try(Nanos limit) {
    const std::vector<std::vector<std::vector<Point>>> none(
        num_ranks_ + 1, std::vector<std::vector<Point>>(num_layers_ + 1));
    fronts_.assign(num_stages_ + 1, none);
    fronts_[0][0][0].push_back({});
    for (int s = 0; s < num_stages_; ++s) {
      for (int m = 0; m < num_ranks_; ++m) {
        for (int r : tables_.Choices(s, m)) Extend(limit, s, m, r);
      }
    }
    const std::vector<Point>& front = fronts_[num_stages_][num_ranks_][num_layers_];
    if (front.empty()) return;
    const auto least = std::min_element(front.begin(), front.end(), [](auto& a, auto& b) {
      return a.sum + a.exposed < b.sum + b.exposed;
    });
    Choice choice = Backtrack(*least);
    choice.cost = DappleCost(problem_, choice.stages, ConsecutiveSeats(choice.replicas, IsFull()));
    if (choice.cost < best_.cost) best_ = std::move(choice);
  }

  bool IsFull() const { return problem_.recompute == Recompute::kFull; }

  void Extend(Nanos limit, int s, int m, int r) {
    const DeviceSeat seat = tables_.SeatAt(m, r);
    const SeatTables::Table& table = tables_.Of(seat);
    const int last = num_layers_ - (num_stages_ - 1 - s);
    for (int i = 0; i < last; ++i) {
      const std::vector<Point>& from = fronts_[s][m][i];
      const Nanos link = s == 0 || from.empty() ? 0 : tables_.BorderLink(i, m);
      if (from.empty() || link > limit) continue;
      for (int j = s == num_stages_ - 1 ? num_layers_ : i + 1; j <= last; ++j) {
        if (table.compute[i][j] > limit || !tables_.Fits(s, seat, {i, j})) break;
        for (size_t k = 0; k < from.size(); ++k) {
          const Nanos exposed = std::max(from[k].exposed, table.sync[i][j] - s * limit);
          Insert({from[k].sum + link + table.compute[i][j], exposed, i, r, static_cast<int>(k)},
                 fronts_[s + 1][m + r][j]);
        }
      }
    }
  }

  Choice Backtrack(Point point) const {
    Choice choice;
    int m = num_ranks_, j = num_layers_;
    for (int s = num_stages_; s > 0; --s) {
      choice.stages.insert(choice.stages.begin(), {point.begin, j});
      choice.replicas.insert(choice.replicas.begin(), point.replicas);
      m -= point.replicas;
      j = point.begin;
      point = fronts_[s - 1][m][j][point.origin];
    }
    return choice;
  }

  const PartitionProblem& problem_;
  SeatTables tables_;
  const int num_layers_;
  const int num_stages_;
  const int num_ranks_;
  std::set<Nanos> blocks_;
  Nanos most_ = 0;
  std::vector<std::vector<std::vector<std::vector<Point>>>> fronts_;  // [stages][ranks][layers]
  Choice best_;
};

}  // namespace

Nanos DappleCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                 const std::vector<DeviceSeat>& seats) {
  const SeatTables tables(problem);
  Nanos block = 0, sum = 0, exposed = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Nanos compute = problem.costs->ComputeNs(seats[s], stages[s]);
    const Nanos link = s > 0 ? tables.BorderLink(stages[s].begin, seats[s].first_rank) : 0;
    block = std::max({block, compute, link});
    sum += compute + link;
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    exposed = std::max<Nanos>(
        exposed, problem.costs->SyncNs({seats[s]}, stages[s]) - static_cast<Nanos>(s) * block);
  }
  return (problem.num_micro_batches - 1) * block + sum + exposed;
}

absl::StatusOr<Partition> PartitionDapple(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_RETURN_IF_ERROR(CheckStraight(problem, "dapple"));
  const Choice choice = Dapple(problem).Run();
  if (choice.stages.empty()) return WhyNothingFits(problem);
  return FinishPartition(problem, choice.stages, choice.replicas);
}

}  // namespace dpipe
