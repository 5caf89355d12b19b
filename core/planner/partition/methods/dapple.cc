#include "core/planner/partition/methods/dapple.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/planner/partition/solvers/replicated.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();
constexpr size_t kFewBlocks = 600;
// One limit in this many is tried first.
constexpr size_t kCoarse = 16;

// The costs of the stages so far, and the last of these stages.
struct Point {
  Nanos sum = 0;      // stages and transfers
  Nanos exposed = 0;  // exposed all-reduce time
  Nanos block = 0;    // lower bound on the longest block
  int begin = 0, replicas = 0;
  int origin = 0;  // index in the front of the previous stages
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
    const ReplicatedSolution least_block = LeastBlock();
    if (least_block.stages.empty()) return {};
    least_ = least_block.largest;
    // The sweep finds solutions of this cost again, so this affects only the running time.
    too_much_ = 1 + CostOf(least_block.stages, least_block.replicas);
    ReadBlocks();
    ReadRests();
    const std::vector<Nanos> limits = Limits();
    // A few limits come first: their cost prunes most of the others.
    Sweep(limits, kCoarse);
    const Choice coarse = std::move(best_);
    best_ = {};
    too_much_ = coarse.cost + 1;
    Sweep(limits, 1);
    return best_.stages.empty() ? coarse : best_;
  }

 private:
  ReplicatedSolution LeastBlock() {
    ReplicatedCosts costs;
    costs.stage = [](const SeatTables::Table& table, const DeviceSeat&, int i, int j) {
      return table.compute[i][j];
    };
    costs.link = [&](int cut, int m) { return tables_.BorderLink(cut, m); };
    return SolveReplicated(problem_, tables_, costs);
  }

  // Reads the values that a block can take, if there are few, and the maximum.
  void ReadBlocks() {
    most_ = least_;
    const auto add = [&](Nanos block) {
      most_ = std::max(most_, block);
      if (block > least_ && blocks_.size() <= kFewBlocks) blocks_.insert(block);
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

  // Reads the minimum sum of stages and transfers from each stage, rank and layer on.
  void ReadRests() {
    rests_.assign(num_stages_ + 1,
                  std::vector<std::vector<Nanos>>(num_ranks_ + 1,
                                                  std::vector<Nanos>(num_layers_ + 1, kInfinity)));
    rests_[num_stages_][num_ranks_][num_layers_] = 0;
    for (int s = num_stages_ - 1; s >= 0; --s) {
      for (int m = 0; m < num_ranks_; ++m) {
        for (int r : tables_.Choices(s, m)) ReadRests(s, m, r);
      }
    }
  }

  void ReadRests(int s, int m, int r) {
    const SeatTables::Table& table = tables_.Of(tables_.SeatAt(m, r));
    for (int i = 0; i < num_layers_; ++i) {
      Nanos least = kInfinity;
      for (int j = i + 1; j <= num_layers_; ++j) {
        const Nanos rest = rests_[s + 1][m + r][j];
        if (rest < kInfinity) least = std::min(least, table.compute[i][j] + rest);
      }
      if (least == kInfinity) continue;
      const Nanos link = s > 0 && m > 0 && i > 0 ? tables_.BorderLink(i, m) : 0;
      rests_[s][m][i] = std::min(rests_[s][m][i], link + least);
    }
  }

  // True if every partition that continues such stages costs at least as much as the best so far.
  bool IsTooMuch(Nanos block, Nanos sum, Nanos exposed, Nanos rest) const {
    return rest == kInfinity || (problem_.num_micro_batches - 1) * block + sum + rest + exposed >=
                                    std::min(best_.cost, too_much_);
  }

  Nanos CostOf(const std::vector<LayerRange>& stages, const std::vector<int>& replicas) const {
    return DappleCost(problem_, stages, ConsecutiveSeats(replicas, IsFull()));
  }

  std::vector<Nanos> Limits() const {
    std::vector<Nanos> limits;
    for (Nanos limit = least_; limit < most_; limit = NextLimit(limit)) limits.push_back(limit);
    limits.push_back(most_);
    return limits;
  }

  // Tries every `stride`-th limit.
  void Sweep(const std::vector<Nanos>& limits, size_t stride) {
    for (size_t i = 0; i < limits.size(); i += stride) {
      // Every partition with a block of at least this limit costs at least `blocks`.
      const Nanos blocks = (problem_.num_micro_batches - 1) * limits[i];
      if (best_.cost < kInfinity && blocks >= best_.cost) return;
      const bool grows = problem_.num_micro_batches >= num_stages_;
      Try(limits[i], i > 0 && grows ? limits[i - stride] : least_);
    }
  }

  Nanos NextLimit(Nanos limit) const {
    if (blocks_.size() > kFewBlocks) return limit + std::max<Nanos>(1, limit / 100);
    const auto next = blocks_.upper_bound(limit);
    return next == blocks_.end() ? kInfinity : *next;
  }

  // Finds the best partition with blocks of at most `limit` and replaces the best so far if it is
  // better. Partitions with blocks of at most `tried` have been tried before.
  void Try(Nanos limit, Nanos tried) {
    const std::vector<std::vector<std::vector<Point>>> none(
        num_ranks_ + 1, std::vector<std::vector<Point>>(num_layers_ + 1));
    fronts_.assign(num_stages_ + 1, none);
    Point none_yet;
    none_yet.block = tried;
    fronts_[0][0][0].push_back(none_yet);
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
    choice.cost = CostOf(choice.stages, choice.replicas);
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
        const Nanos rest = rests_[s + 1][m + r][j];
        for (size_t k = 0; k < from.size(); ++k) {
          const Nanos sum = from[k].sum + link + table.compute[i][j];
          const Nanos exposed = std::max(from[k].exposed, table.sync[i][j] - s * limit);
          const Nanos block = std::max({from[k].block, link, table.compute[i][j]});
          if (IsTooMuch(block, sum, exposed, rest)) continue;
          Insert({sum, exposed, block, i, r, static_cast<int>(k)}, fronts_[s + 1][m + r][j]);
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
  Nanos least_ = 0, most_ = 0;  // blocks
  Nanos too_much_ = kInfinity;  // partitions of at least this cost are dropped
  std::vector<std::vector<std::vector<Nanos>>> rests_;                // [stages][ranks][layers]
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
  if (choice.stages.empty()) return NothingFitsError(problem);
  return FinishPartition(problem, choice.stages, choice.replicas);
}

}  // namespace dpipe
