#include "core/planner/joint_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/planner/cut_costs.h"
#include "core/planner/cut_neighbours.h"
#include "core/schedule/pass_sequences.h"
#include "core/schedule/tabu_order.h"

namespace dpipe {
namespace {

// Moves of passes: of a search for the order of a cut, and of one that judges a cut.
constexpr int kLong = 10000;
constexpr int kShort = 600;
// Of one that goes on from a cut that is not better.
constexpr int kKick = 2000;
// How many cuts are judged by a search of their own.
constexpr int kPromising = 20;
// How many that are two shifts away are judged by the makespan of the order as it is; those that
// are one shift away, at most 12 a boundary, are all judged, too.
constexpr int kPairsJudged = 300;
// What beginning a search takes, in moves; and what judging by makespans does, however many cuts
// there are to judge.
constexpr int kMovesOfStart = 30;
constexpr int kMovesOfJudging = 300;

using Stages = CutNeighbours::Stages;

// Of other cuts, the makespan of the order as it is.
class CutJudge {
 public:
  CutJudge(const Schedule& order, const PassGraphCosts& times, const CutNeighbours& neighbours)
      : order_(order),
        neighbours_(neighbours),
        graph_(order, times),
        sequences_(graph_, graph_.ListBy(graph_.OwnTimes())) {}

  Nanos Makespan(const Stages& stages) {
    for (int s = 0; s < order_.num_stages(); ++s) {
      graph_.SetCosts(s, neighbours_.CostsOf(stages, s));
    }
    sequences_.Recompute();
    return sequences_.makespan_ns();
  }

 private:
  const Schedule& order_;
  const CutNeighbours& neighbours_;
  PassGraph graph_;
  PassSequences sequences_;
};

class JointSearch {
 public:
  JointSearch(const PlanBuilder& builder, const PipelineShape& shape, const JointOptions& options)
      : builder_(builder), shape_(shape), left_(options.max_moves) {}

  JointResult Run(const PipelineCut& cut) {
    JointResult best = Shortened(cut, kLong);
    JointResult current = best;
    while (left_ > 0) {
      const std::vector<Stages> promising = PromisingStages(current);
      std::optional<JointResult> better = FirstShorter(current, promising);
      if (better) {
        current = *std::move(better);
        if (current.makespan_ns < best.makespan_ns) best = current;
        continue;
      }
      if (promising.empty()) break;
      // On from another cut that is not much worse.
      current = Shortened(With(current.cut, promising[num_searches_ % promising.size()]), kKick);
      if (current.makespan_ns < best.makespan_ns) best = current;
    }
    return best;
  }

 private:
  static PipelineCut With(PipelineCut cut, const Stages& stages) {
    cut.stages = stages;
    return cut;
  }

  JointResult Shortened(const PipelineCut& cut, int max_moves) {
    TabuOptions options;
    options.times = builder_.TimesOf(shape_, cut, *cut.schedule);
    options.max_moves = std::max(0, std::min(left_, max_moves));
    options.seed = num_searches_++;
    TabuResult result = TabuOrder(*cut.schedule, options);
    left_ -= kMovesOfStart + result.num_moves;
    JointResult shortened{cut, result.makespan_ns};
    shortened.cut.schedule = std::make_shared<const Schedule>(std::move(result.schedule));
    return shortened;
  }

  std::optional<JointResult> FirstShorter(const JointResult& current,
                                          const std::vector<Stages>& promising) {
    for (const Stages& stages : promising) {
      if (left_ <= 0) break;
      JointResult found = Shortened(With(current.cut, stages), kShort);
      if (found.makespan_ns < current.makespan_ns) return found;
    }
    return std::nullopt;
  }

  // The most promising first.
  std::vector<Stages> PromisingStages(const JointResult& best) {
    left_ -= kMovesOfJudging;
    const Schedule& order = *best.cut.schedule;
    const CutCosts costs = builder_.CostsOf(shape_, best.cut, order);
    const PassGraphCosts times = builder_.TimesOf(shape_, best.cut, order, costs);
    const CutNeighbours neighbours(costs, best.cut);
    std::vector<Nanos> work = neighbours.Work();
    for (size_t d = 0; d < work.size(); ++d) work[d] += times.ready_ns[d];
    CutJudge judge(order, times, neighbours);
    std::vector<std::pair<Nanos, Stages>> judged;
    for (Stages& stages : neighbours.Below(best.makespan_ns, work, kPairsJudged)) {
      const Nanos makespan_ns = judge.Makespan(stages);
      judged.emplace_back(makespan_ns, std::move(stages));
    }
    std::stable_sort(judged.begin(), judged.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Stages> promising;
    for (auto& [makespan_ns, stages] : judged) {
      if (static_cast<int>(promising.size()) == kPromising) break;
      promising.push_back(std::move(stages));
    }
    return promising;
  }

  const PlanBuilder& builder_;
  const PipelineShape& shape_;
  int left_ = 0;  // moves
  int num_searches_ = 0;
};

}  // namespace

JointResult SearchJointly(const PlanBuilder& builder, const PipelineShape& shape,
                          const PipelineCut& cut, const JointOptions& options) {
  return JointSearch(builder, shape, options).Run(cut);
}

}  // namespace dpipe
