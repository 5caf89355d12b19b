#include "core/planner/search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/cost/step_bound.h"
#include "core/planner/candidate_report.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/candidates.h"
#include "core/planner/search/explorer.h"
#include "core/planner/search/frontier.h"
#include "core/planner/search/improver.h"
#include "core/planner/search/pair_builder.h"
#include "core/planner/strategy.h"
#include "core/sim/annotate.h"

namespace dpipe {
namespace {

// Of the budget: what looking at candidates and improving the best may take, in the first round and
// in the second.
constexpr double kExploreShare[] = {0.6, 0.9};
constexpr double kImproveShare[] = {0.4, 0.2};
// How many of the best are improved, and how much longer than the best they may be before.
constexpr int kNumImproved[] = {4, 2};
constexpr double kImproveMargin = 1.1;
// Where they are tuned: the best of each alternative first, then the best of those.
constexpr double kScreenShare = 0.4;
constexpr int kNumScreened = 6;
constexpr double kTuneShare = 0.5;
// The same where S and M are given, so that candidates differ in little but their schedules: there
// are few, and what looking at many would take improves more of them.
constexpr double kTuneShareOfShape = 5.5;
constexpr int kNumTunedOfShape = 4;
// Then, for the best of them once more; and moves as below.
constexpr double kBestShare = 0.6;
constexpr double kMovesOfBest = 0.12;
// Moves of passes in joint searches, in proportion to the simulation budget, which they do not take
// from.
constexpr double kMovesOfShape = 0.48;
// What improving a rival's plan gains at most, as a rule.
constexpr double kRivalGain = 1.2;
// Plans whose simulation takes such a part of the budget are large; and so many of a smaller batch
// are tried with more micro-batches.
constexpr double kLargePlan = 0.05;
constexpr int kNumTriedLarger = 4;
// Where neither is given, the best candidate is tuned as thoroughly as if they were, if its step is
// so much longer than the lower bound of its stages.
constexpr double kNearBound = 1.02;
constexpr double kThoroughShare = 1.4;

// Of strategies that leave something open or are tuned, the search does three things more than of
// others: the second round, the rivals and the thorough improvement.
class Search {
 public:
  Search(const Strategy& strategy, const CostModel& cost, const PlanOptions& options)
      : strategy_(strategy),
        cost_(cost),
        options_(options),
        explorer_(strategy, cost, options),
        first_sharding_(ShardAlternatives(strategy)[0]) {}

  absl::StatusOr<PlanResult> Run() {
    DPIPE_RETURN_IF_ERROR(Find());
    if (!best_) return explorer_.WhyNothing();
    return Result();
  }

  // The best plan of the first round; nothing if it is not expected to come near `limit_ns`
  // (0: no limit).
  std::optional<Candidate> FindBelow(Nanos limit_ns) {
    if (!explorer_.Prepare().ok()) return std::nullopt;
    const Nanos ideal_ns = explorer_.LeastIdeal();
    if (ideal_ns == 0 || (limit_ns > 0 && ideal_ns > limit_ns)) return std::nullopt;
    RunRound(0, limit_ns);
    return best_;
  }

 private:
  using Extent = PlanBuilder::Extent;

  absl::Status Find() {
    DPIPE_RETURN_IF_ERROR(explorer_.Prepare());
    DPIPE_RETURN_IF_ERROR(CheckStepTimes(cost_, options_.global_batch, /*num_steps=*/4));
    RunRound(0, /*limit_ns=*/0);
    best_of_first_round_ = best_;
    LearnFromSmallerBatch();
    RunRound(1, /*limit_ns=*/0);
    MeetRivals();
    TuneBestThoroughly();
    return absl::OkStatus();
  }

  // Where plans are so large that the budget allows few of them, those of a part of the batch, with
  // as many micro-batches less, are searched first: what is best there is tried here before all
  // else. So a larger batch is, as a rule, no slower per sample.
  void LearnFromSmallerBatch() {
    if (!strategy_.tune() || options_.num_micro_batches > 0 || options_.micro_batch_size > 0)
      return;
    if (best_ && explorer_.Work(best_->shape) < PartOfBudget(kLargePlan)) return;
    for (int times : {4, 2}) {
      PlanOptions part = options_;
      part.global_batch /= times;
      if (options_.global_batch % times != 0 || part.global_batch < cost_.num_devices()) continue;
      Search smaller(strategy_, cost_, part);
      if (!smaller.Find().ok() || !smaller.best_) continue;
      std::vector<Candidate> known = smaller.BestOfKinds();
      for (const Candidate& candidate : known) TryLarger(candidate, times);
      return;
    }
  }

  // The best and the best of other alternatives, a few.
  std::vector<Candidate> BestOfKinds() {
    std::vector<Candidate> best = {*best_};
    std::vector<Candidate> simulated;
    for (const Candidate& candidate : explorer_.candidates()) {
      if (candidate.state == Candidate::State::kSimulated) simulated.push_back(candidate);
    }
    std::sort(simulated.begin(), simulated.end(), IsBetter);
    std::set<int> kinds = {best_->alternative};
    for (const Candidate& candidate : simulated) {
      if (static_cast<int>(best.size()) == kNumTriedLarger) break;
      if (kinds.insert(candidate.alternative).second) best.push_back(candidate);
    }
    return best;
  }

  // The same pipeline with so many times the micro-batches.
  void TryLarger(const Candidate& smaller, int times) {
    Candidate* const same = FindLarger(smaller, times, &explorer_.candidates());
    if (same == nullptr || same->state == Candidate::State::kSimulated) return;
    Candidate tried = *same;
    tried.shape.peak_limit = smaller.shape.peak_limit;
    tried.may_recompute = smaller.may_recompute;
    tried.cut = smaller.cut;
    tried.cut.schedule = nullptr;
    for (bool frozen_first : {false, true}) {
      tried.frozen_first = frozen_first;
      if (frozen_first && !smaller.frozen_first) continue;
      if (!explorer_.TryCut(strategy_.tune(), &tried).ok()) continue;
      if (tried.state != Candidate::State::kSimulated) continue;
      if (!best_ || IsBetter(tried, *best_)) best_ = tried;
      if (!frozen_first) *same = tried;
    }
  }

  // The first round knows nothing of the second: a strategy finds no worse than one that has only
  // the first's schedules.
  bool IsOfFirstRound(const Candidate& candidate) const {
    if (candidate.shape.frozen_hosts > 0) return false;
    if (candidate.shape.sharding != first_sharding_) return false;
    return candidate.alternative == 0 || candidate.shape.schedule == "cascaded";
  }

  void RunRound(int round, Nanos limit_ns) {
    // What was improved before is tuned then.
    tunes_ = round == 1 && strategy_.tune();
    is_thorough_ = tunes_ && ShapeIsGiven();
    if (tunes_) improved_.clear();
    bool is_needed = tunes_;
    for (Candidate& candidate : explorer_.candidates()) {
      if (candidate.state == Candidate::State::kSimulated && round == 1) continue;
      if (IsOfFirstRound(candidate) != (round == 0)) {
        // Lack of memory may be mended by recomputation.
        const bool again = round == 1 && strategy_.recompute() == "auto" &&
                           candidate.step_ns == 0 &&
                           (candidate.is_out_of_memory || candidate.lacks_memory());
        if (!again) continue;
        candidate.state = Candidate::State::kUncut;
        candidate.shape.peak_limit = 0;
        candidate.outcome.clear();
      }
      explorer_.Add(/*may_recompute=*/round == 1, &candidate);
      is_needed = true;
    }
    if (!is_needed) return;
    Grant(kExploreShare[round]);
    explorer_.Run(limit_ns, tunes_);
    const bool is_hopeless = limit_ns > 0 && explorer_.found() &&
                             static_cast<double>(explorer_.found()->step_ns) >
                                 kRivalGain * static_cast<double>(limit_ns);
    if (!is_hopeless) GrantAndImprove(round);
  }

  bool ShapeIsGiven() const { return options_.num_stages > 0 && options_.num_micro_batches > 0; }

  int64_t PartOfBudget(double share) const { return explorer_.PartOfBudget(share); }

  void Grant(double share) {
    int64_t& budget = *explorer_.budget();
    budget = std::max<int64_t>(0, budget) + PartOfBudget(share);
  }

  void GrantAndImprove(int round) {
    if (is_thorough_) {
      Grant(kTuneShareOfShape);
      moves_ = PartOfBudget(kMovesOfShape);
      Improve(kNumTunedOfShape, /*by_schedule=*/false);
      // Its own part of the budget has often been used up while something still helped.
      moves_ += PartOfBudget(kMovesOfBest);
      ImproveBest(kBestShare);
      return;
    }
    if (tunes_) {
      Grant(kScreenShare);
      Improve(kNumScreened, /*by_schedule=*/true);
      improved_.clear();
      Grant(kTuneShare);
      Improve(kNumImproved[round], /*by_schedule=*/false);
      return;
    }
    Grant(kImproveShare[round]);
    Improve(kNumImproved[round], /*by_schedule=*/false);
  }

  void ImproveBest(double share) {
    if (!best_ || !options_.refine) return;
    Grant(share);
    const Candidate improved = MakeImprover().Improved(*best_);
    if (IsBetter(improved, *best_)) best_ = improved;
  }

  // What a search over S and M spends on many candidates often leaves much to gain by one.
  void TuneBestThoroughly() {
    if (!strategy_.tune() || ShapeIsGiven() || !best_) return;
    if (static_cast<double>(best_->step_ns) <= kNearBound * static_cast<double>(best_->bound_ns)) {
      return;
    }
    is_thorough_ = true;
    moves_ = PartOfBudget(kMovesOfBest);
    ImproveBest(kThoroughShare);
  }

  // The best `count` that differ in schedule or S (`by_schedule`: in their alternative), with what
  // is left of the budget; those improved before are not again.
  void Improve(int count, bool by_schedule) {
    std::vector<Candidate*> simulated;
    for (Candidate& candidate : explorer_.candidates()) {
      if (candidate.state == Candidate::State::kSimulated) simulated.push_back(&candidate);
    }
    std::sort(simulated.begin(), simulated.end(),
              [](const Candidate* a, const Candidate* b) { return IsBetter(*a, *b); });
    if (!simulated.empty() && (!best_ || IsBetter(*simulated[0], *best_))) best_ = *simulated[0];
    std::set<std::pair<int, int>> kinds;
    std::vector<Candidate*> chosen;
    for (Candidate* candidate : simulated) {
      if (!options_.refine || static_cast<int>(chosen.size()) == count) break;
      if (candidate->step_ns > kImproveMargin * simulated[0]->step_ns) break;
      const int stages = by_schedule ? 0 : candidate->shape.num_stages;
      if (!kinds.insert({candidate->alternative, stages}).second) continue;
      if (improved_.insert(Order(*candidate)).second) chosen.push_back(candidate);
    }
    int64_t& budget = *explorer_.budget();
    for (size_t i = 0; i < chosen.size(); ++i) {
      const int64_t later = budget - budget / static_cast<int64_t>(chosen.size() - i);
      budget -= later;
      const int64_t later_moves = moves_ - moves_ / static_cast<int64_t>(chosen.size() - i);
      moves_ -= later_moves;
      const bool is_best = Order(*chosen[i]) == Order(*best_);
      *chosen[i] = MakeImprover().Improved(is_best ? *best_ : *chosen[i]);
      budget += later;
      moves_ += later_moves;
      if (IsBetter(*chosen[i], *best_)) best_ = *chosen[i];
    }
  }

  Improver MakeImprover() {
    ImproverContext context;
    context.cost = &cost_;
    context.pairs = &explorer_.pairs();
    context.moves_layers = strategy_.partitioner() == "balanced";
    context.tunes = tunes_;
    context.thorough = is_thorough_;
    context.simulate = [this](Nanos give_up_ns, Candidate* changed) {
      return explorer_.Simulate(give_up_ns, changed);
    };
    context.work = [this](const PipelineShape& shape) { return explorer_.Work(shape); };
    context.budget = explorer_.budget();
    context.moves = &moves_;
    context.simulated = &simulated_;
    return Improver(std::move(context));
  }

  // A rival's plan replaces ours if it is better, as it is or with its frozen work in the bubbles.
  void MeetRivals() {
    bool won = false;
    if (!strategy_.tune() || strategy_.frozen() != "fill") return;
    for (const auto& [alternative, rival] : SimplerStrategies(strategy_, cost_)) {
      // Filled, its plans are no slower, as a rule.
      if (best_ && static_cast<double>(explorer_.ExpectedOf(alternative)) >
                       kRivalGain * static_cast<double>(best_->step_ns)) {
        continue;
      }
      std::optional<Candidate> theirs =
          Search(rival, cost_, options_).FindBelow(best_ ? best_->step_ns : 0);
      if (!theirs) continue;
      theirs->alternative = alternative;
      theirs->frozen_first = true;
      Candidate filled = *theirs;
      filled.frozen_first = false;
      if (!explorer_.Simulate(best_ ? best_->step_ns : 0, &filled).ok()) filled = *theirs;
      for (const Candidate& candidate : {*theirs, filled}) {
        if (candidate.state != Candidate::State::kSimulated) continue;
        if (best_ && !IsBetter(candidate, *best_)) continue;
        best_ = candidate;
        won = true;
      }
    }
    if (won) ImproveBest(kTuneShare);
  }

  absl::StatusOr<PlanResult> Result() {
    DPIPE_ASSIGN_OR_RETURN(PlanPair built, explorer_.pairs().Build(*best_, Extent::kWhole));
    // Of all groups together a step may take longer than one group's.
    if (best_of_first_round_ && built.expected_step_ns > best_of_first_round_->step_ns &&
        Order(*best_of_first_round_) != Order(*best_)) {
      absl::StatusOr<PlanPair> other =
          explorer_.pairs().Build(*best_of_first_round_, Extent::kWhole);
      if (other.ok() && other->expected_step_ns < built.expected_step_ns) {
        built = *std::move(other);
        best_ = best_of_first_round_;
      }
    }
    PlanResult result;
    result.plan = std::move(built.plain.plan);
    DPIPE_RETURN_IF_ERROR(
        AnnotatePrediction(&result.plan, cost_, built.plain.unfilled_bubble_ratio));
    if (cost_.profile().self_conditioning_probability() > 0) {
      result.self_conditioned_plan = std::move(built.self_conditioned.plan);
      DPIPE_RETURN_IF_ERROR(AnnotatePrediction(&result.self_conditioned_plan, cost_,
                                               built.self_conditioned.unfilled_bubble_ratio));
    }
    best_->step_ns = built.expected_step_ns;
    result.expected_step_ns = built.expected_step_ns;
    result.num_considered = static_cast<int>(explorer_.candidates().size());
    result.num_simulated = explorer_.num_simulated();
    result.num_left = explorer_.num_left();
    result.candidates = ReportAll(*best_, explorer_.candidates(), options_.num_candidates);
    return result;
  }

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  Explorer explorer_;
  const Sharding first_sharding_;
  int64_t moves_ = 0;  // of passes in joint searches, beside the budget
  SimulatedCandidates simulated_;
  std::optional<Candidate> best_, best_of_first_round_;
  std::set<CandidateOrder> improved_;
  bool tunes_ = false, is_thorough_ = false;
};

}  // namespace

absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckStrategy(strategy));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  return Search(strategy, cost, options).Run();
}

}  // namespace dpipe
