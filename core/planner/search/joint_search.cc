#include "core/planner/search/joint_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/planner/costs/cut_costs.h"
#include "core/planner/cuts/cut_neighbours.h"
#include "core/schedule/tuning/pass_sequences.h"
#include "core/schedule/tuning/tabu_order.h"

namespace dpipe {
namespace {

// Moves of passes in a search for the order of a cut, and in one that judges a cut.
constexpr int kLongSearchMoves = 10000;
constexpr int kShortSearchMoves = 600;
// In one that continues from a cut that is no better.
constexpr int kRestartMoves = 2000;
// Number of cuts judged by a search of their own.
constexpr int kNumPromising = 20;
// Number of best results kept, and the number of turns without gain after which the search returns
// to one of them.
constexpr size_t kNumKept = 4;
constexpr int kMaxFruitlessTurns = 6;
// How much longer than the makespan devices may be busy with another cut, including ways in and
// out: one part in this.
constexpr int kSpanMarginPart = 50;
// Number of cuts two shifts away that are judged by the makespan of the order as it is. Cuts one
// shift away, at most 12 per boundary, are all judged too.
constexpr int kPairsJudged = 300;
// Cost of starting a search, in moves, and of judging cuts by makespan, whatever their number.
constexpr int kMovesPerStart = 30;
constexpr int kMovesPerJudging = 300;

using Stages = CutNeighbours::Stages;

// Computes the makespan of the order as it is with other cuts.
class CutJudge {
 public:
  CutJudge(const Schedule& order, const PassGraphCosts& times, const CutNeighbours& neighbours)
      : order_(order),
        neighbours_(neighbours),
        graph_(order, times),
        sequences_(graph_, graph_.TopologicalOrderBy(graph_.OriginalStartTimes())) {}

  // Returns, by device, the sum of its passes, the longest way in to its first pass and the longest
  // way out of its last one.
  std::vector<Nanos> Spans() const {
    std::vector<Nanos> spans = neighbours_.Work();
    for (int d = 0; d < graph_.num_devices(); ++d) {
      const int first = sequences_.FirstOf(d), last = sequences_.LastOf(d);
      if (first == PassSequences::kNone) continue;
      spans[d] += sequences_.StartOf(first) + sequences_.RestOf(last) - graph_.op(last).ns;
    }
    return spans;
  }

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
      : builder_(builder), shape_(shape), wanders_(options.diversify), left_(options.max_moves) {}

  std::vector<JointResult> Run(const PipelineCut& cut) {
    JointResult current = Shortened(cut, kLongSearchMoves);
    Keep(current);
    int fruitless = 0;
    while (left_ > 0) {
      const std::vector<Stages> promising = PromisingStages(current);
      std::optional<JointResult> next = BestOf(promising, current);
      if (!next || next->makespan_ns >= current.makespan_ns) {
        next = wanders_ ? Wander(current, promising) : Climb(current, next, fruitless);
      }
      current = *std::move(next);
      fruitless = Keep(current) ? 0 : fruitless + 1;
    }
    return std::move(elite_);
  }

 private:
  // Adds the result to the best ones, one per cut, the shortest first. Returns true if it is
  // shorter than all others so far.
  bool Keep(const JointResult& result) {
    const bool best = elite_.empty() || result.makespan_ns < elite_[0].makespan_ns;
    const auto same = std::find_if(elite_.begin(), elite_.end(), [&](const JointResult& other) {
      return other.cut.stages == result.cut.stages;
    });
    if (same != elite_.end()) {
      if (same->makespan_ns <= result.makespan_ns) return false;
      elite_.erase(same);
    }
    const auto behind = std::find_if(elite_.begin(), elite_.end(), [&](const JointResult& other) {
      return other.makespan_ns > result.makespan_ns;
    });
    elite_.insert(behind, result);
    if (elite_.size() > kNumKept) elite_.pop_back();
    return best;
  }

  // Continues from any of the promising cuts.
  JointResult Wander(const JointResult& current, const std::vector<Stages>& promising) {
    if (promising.empty()) return Shortened(elite_[0].cut, kRestartMoves);
    return Shortened(With(current.cut, promising[num_searches_ % promising.size()]), kRestartMoves);
  }

  // Continues from the shortest of the neighbouring cuts, never from one twice. After some turns
  // without gain, returns to one of the best results: not all of its neighbours have been explored.
  JointResult Climb(const JointResult& current, const std::optional<JointResult>& shortest,
                    int fruitless) {
    visited_.insert(current.cut.stages);
    const bool returns = !shortest || (fruitless > 0 && fruitless % kMaxFruitlessTurns == 0);
    const JointResult& from =
        returns ? elite_[(fruitless / kMaxFruitlessTurns) % elite_.size()] : *shortest;
    return Shortened(from.cut, kRestartMoves);
  }

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
    left_ -= kMovesPerStart + result.num_moves;
    JointResult shortened{cut, result.makespan_ns};
    shortened.cut.schedule = std::make_shared<const Schedule>(std::move(result.schedule));
    return shortened;
  }

  // Returns the first cut with a shorter makespan than `current`, otherwise the shortest.
  std::optional<JointResult> BestOf(const std::vector<Stages>& promising,
                                    const JointResult& current) {
    std::optional<JointResult> best;
    for (const Stages& stages : promising) {
      if (left_ <= 0) break;
      JointResult found = Shortened(With(current.cut, stages), kShortSearchMoves);
      if (!best || found.makespan_ns < best->makespan_ns) best = std::move(found);
      if (best->makespan_ns < current.makespan_ns) break;
    }
    return best;
  }

  // Returns the most promising cuts first.
  std::vector<Stages> PromisingStages(const JointResult& best) {
    left_ -= kMovesPerJudging;
    const Schedule& order = *best.cut.schedule;
    const CutCosts costs = builder_.CostsOf(shape_, best.cut, order);
    const PassGraphCosts times = builder_.TimesOf(shape_, best.cut, order, costs);
    const CutNeighbours neighbours(costs, best.cut);
    CutJudge judge(order, times, neighbours);
    std::vector<Nanos> busy = judge.Spans();
    Nanos limit_ns = best.makespan_ns + best.makespan_ns / kSpanMarginPart;
    if (wanders_) {
      busy = neighbours.Work();
      for (size_t d = 0; d < busy.size(); ++d) busy[d] += times.ready_ns[d];
      limit_ns = best.makespan_ns;
    }
    std::set<Stages> seen = visited_;  // two pairs of shifts may make the same cut
    std::vector<Stages> by_span;
    std::vector<std::pair<Nanos, int>> judged;
    for (Stages& stages : neighbours.Below(limit_ns, busy, kPairsJudged)) {
      if (!seen.insert(stages).second) continue;
      judged.emplace_back(judge.Makespan(stages), static_cast<int>(by_span.size()));
      by_span.push_back(std::move(stages));
    }
    std::sort(judged.begin(), judged.end());
    // Alternate between cuts with the shortest makespan and, unless it diversify, those with the
    // shortest spans.
    std::vector<Stages> promising;
    std::vector<bool> chosen(by_span.size(), false);
    for (size_t i = 0; i < by_span.size(); ++i) {
      for (int k : {judged[i].second, wanders_ ? judged[i].second : static_cast<int>(i)}) {
        if (chosen[k] || static_cast<int>(promising.size()) == kNumPromising) continue;
        chosen[k] = true;
        promising.push_back(by_span[k]);
      }
    }
    return promising;
  }

  const PlanBuilder& builder_;
  const PipelineShape& shape_;
  const bool wanders_;
  int left_ = 0;  // moves
  int num_searches_ = 0;
  std::set<Stages> visited_;        // cuts that it has continued from
  std::vector<JointResult> elite_;  // the shortest first
};

}  // namespace

std::vector<JointResult> SearchJointly(const PlanBuilder& builder, const PipelineShape& shape,
                                       const PipelineCut& cut, const JointOptions& options) {
  return JointSearch(builder, shape, options).Run(cut);
}

}  // namespace dpipe
