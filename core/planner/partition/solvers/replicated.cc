#include "core/planner/partition/solvers/replicated.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/planner/partition/solvers/stage_windows.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();

struct Entry {
  Nanos largest = kInfinity;
  int begin = 0;  // first layer of the last stage
  int replicas = 0;
};

class Solver {
 public:
  Solver(const PartitionProblem& problem, SeatTables& tables, const ReplicatedCosts& costs)
      : tables_(tables),
        costs_(costs),
        num_layers_(problem.costs->num_layers()),
        num_stages_(problem.num_stages()),
        num_ranks_(problem.num_ranks()) {}

  ReplicatedSolution Run() {
    const std::vector<std::vector<Entry>> none(num_ranks_ + 1, std::vector<Entry>(num_layers_ + 1));
    table_.assign(num_stages_ + 1, none);
    table_[0][0][0].largest = 0;
    for (int s = 0; s < num_stages_; ++s) {
      for (int m = 0; m < num_ranks_; ++m) {
        for (int r : tables_.Choices(s, m)) Extend(s, m, r);
      }
    }
    return Backtrack();
  }

 private:
  void Extend(int s, int m, int r) {
    const auto& from = table_[s][m];
    if (std::all_of(from.begin(), from.end(),
                    [](const Entry& e) { return e.largest == kInfinity; })) {
      return;
    }
    const DeviceSeat seat = tables_.SeatAt(m, r);
    const SeatTables::Table& table = tables_.Of(seat);
    const int last = num_layers_ - (num_stages_ - 1 - s);
    for (int i = 0; i < last; ++i) {
      if (from[i].largest == kInfinity) continue;
      const Nanos so_far = s == 0 ? from[i].largest : std::max(from[i].largest, costs_.link(i, m));
      for (int j = s == num_stages_ - 1 ? num_layers_ : i + 1; j <= last; ++j) {
        const Nanos largest = std::max(so_far, costs_.stage(table, seat, i, j));
        Entry& entry = table_[s + 1][m + r][j];
        if (largest >= entry.largest) continue;
        if (!tables_.Fits(s, seat, {i, j})) break;
        entry = {largest, i, r};
      }
    }
  }

  ReplicatedSolution Backtrack() const {
    ReplicatedSolution solution;
    int m = num_ranks_, j = num_layers_;
    solution.largest = table_[num_stages_][m][j].largest;
    if (solution.largest == kInfinity) return solution;
    for (int s = num_stages_; s > 0; --s) {
      const Entry& entry = table_[s][m][j];
      solution.stages.insert(solution.stages.begin(), {entry.begin, j});
      solution.replicas.insert(solution.replicas.begin(), entry.replicas);
      j = entry.begin;
      m -= entry.replicas;
    }
    return solution;
  }

  SeatTables& tables_;
  const ReplicatedCosts& costs_;
  const int num_layers_;
  const int num_stages_;
  const int num_ranks_;
  std::vector<std::vector<std::vector<Entry>>> table_;  // [stages][ranks][layers]
};

}  // namespace

SeatTables::Table SeatTables::Make(const DeviceSeat& seat) const {
  const int count = problem_.costs->num_layers();
  Table table;
  table.compute.assign(count, std::vector<Nanos>(count + 1, 0));
  table.sync = table.compute;
  const std::vector<DeviceSeat> alone = {seat};
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j <= count; ++j) {
      table.compute[i][j] = problem_.costs->ComputeNs(seat, {i, j});
      table.sync[i][j] = problem_.costs->SyncNs(alone, {i, j});
    }
  }
  return table;
}

const SeatTables::Table& SeatTables::Of(const DeviceSeat& seat) {
  const Table*& known = tables_[{seat.first_rank, seat.replicas}];
  if (known != nullptr) return *known;
  Table table = Make(seat);
  std::vector<std::unique_ptr<Table>>& kinds = kinds_[seat.replicas];
  for (const std::unique_ptr<Table>& kind : kinds) {
    if (kind->compute != table.compute || kind->sync != table.sync) continue;
    known = kind.get();
    return *known;
  }
  kinds.push_back(std::make_unique<Table>(std::move(table)));
  known = kinds.back().get();
  return *known;
}

std::vector<int> SeatTables::Choices(int s, int used) const {
  const int later = problem_.num_stages() - 1 - s;
  const int most = problem_.num_ranks() - used - later;
  std::vector<int> choices;
  if (!problem_.choose_replicas) {
    if (problem_.replicas[s] <= most) choices.push_back(problem_.replicas[s]);
    return choices;
  }
  for (int r = later == 0 ? most : 1; r <= most; ++r) {
    if (r >= 1 && problem_.costs->CanReplicate(r)) choices.push_back(r);
  }
  return choices;
}

ReplicatedSolution SolveReplicated(const PartitionProblem& problem, SeatTables& tables,
                                   const ReplicatedCosts& costs) {
  return Solver(problem, tables, costs).Run();
}

absl::Status NothingFitsError(const PartitionProblem& problem) {
  const absl::Status why = StageWindows(problem).NothingFitsError();
  if (!problem.choose_replicas) return why;
  return absl::ResourceExhaustedError(
      absl::StrCat(why.message(), ", with ", problem.num_ranks(), " ranks shared evenly"));
}

}  // namespace dpipe
