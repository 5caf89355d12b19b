#include "core/planner/search.h"

#include <algorithm>
#include <cstdint>
#include <memory>
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
#include "core/schedule/builders/concatenate_schedules.h"
#include "core/schedule/schedule_traits.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

// Fractions of the budget for exploring candidates and for improving the best ones, in the first
// round and in the second.
constexpr double kExploreShare[] = {0.6, 0.9};
constexpr double kImproveShare[] = {0.4, 0.2};
// How many of the best are improved, and how much longer than the best they may be before that.
constexpr int kNumImproved[] = {4, 2};
constexpr double kImproveMargin = 1.1;
// If they are tuned: first the best of each alternative, then the best of those.
constexpr double kScreenShare = 0.4;
constexpr int kNumScreened = 6;
constexpr double kTuneShare = 0.5;
// The same if S and M are given. Then candidates differ in little but their schedules: there are
// few, and the budget for exploring many improves more of them.
constexpr double kGivenShapeTuneShare = 5.5;
constexpr int kGivenShapeNumTuned = 4;
// Then the best of them is improved once more, with these fractions of the budget and of moves.
constexpr double kBestShare = 0.6;
constexpr double kBestMovesShare = 0.12;
// Moves of passes in joint searches, as a fraction of the simulation budget, which they do not use.
constexpr double kMovesShare = 0.48;
// The maximum gain that improving a rival's plan usually brings.
constexpr double kRivalGain = 1.2;
// A plan is large if its simulation takes this fraction of the budget. This many plans of a smaller
// batch are tried with more micro-batches.
constexpr double kLargePlan = 0.02;
constexpr int kNumTriedLarger = 4;
// The part of a part is searched with this fraction of the budget.
constexpr double kPartOfPartShare = 0.5;
// If neither S nor M is given, the best candidate is tuned as thoroughly as if they were, provided
// that its step is this much longer than the lower bound of its stages.
constexpr double kNearBound = 1.02;
constexpr double kThoroughShare = 1.4;

// False if nothing is cut, or if both backbones are cut together (PlanBuilder::CutPair).
bool UsesPartitioner(const std::string& schedule) {
  if (schedule == "single") return false;
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(schedule);
  return !traits.ok() || traits->num_backbones != 2 || traits->stages_per_device != 2;
}

// For a strategy that leaves something open or is tuned, the search also runs the second round, the
// rivals and the thorough improvement.
class Search {
 public:
  // All arguments must outlive this.
  Search(const Strategy& strategy, const CostModel& cost, const PlanOptions& options,
         const SearchTables& tables)
      : strategy_(strategy),
        cost_(cost),
        options_(options),
        tables_(tables),
        explorer_(strategy, cost, options, tables),
        first_sharding_(ShardAlternatives(strategy)[0]) {}

  absl::StatusOr<PlanResult> Run() {
    DPIPE_RETURN_IF_ERROR(Find(/*useful_below_ns=*/0));
    if (!best_) return explorer_.NothingFitsError();
    return Result();
  }

  // Returns the best plan of the first round; nullopt if it is not expected to come near `limit_ns`
  // (0: no limit).
  std::optional<Candidate> FindBelow(Nanos limit_ns) {
    if (!explorer_.Prepare().ok()) return std::nullopt;
    const Nanos ideal_ns = explorer_.MinIdealStep(/*tunes=*/false);
    if (ideal_ns == 0 || (limit_ns > 0 && ideal_ns > limit_ns)) return std::nullopt;
    RunRound(0, limit_ns);
    MeetSimplerCuts(best_ ? best_->step_ns : limit_ns);
    return best_;
  }

 private:
  using Extent = PlanBuilder::Extent;

  // Finds nothing if no plan is expected to take less than `useful_below_ns` (0: no limit).
  absl::Status Find(Nanos useful_below_ns) {
    DPIPE_RETURN_IF_ERROR(explorer_.Prepare());
    if (useful_below_ns > 0 && explorer_.MinIdealStep(strategy_.tune()) >= useful_below_ns) {
      return absl::OkStatus();
    }
    DPIPE_RETURN_IF_ERROR(CheckStepTimes(cost_, options_.global_batch, /*num_steps=*/4));
    RunRound(0, /*limit_ns=*/0);
    best_of_first_round_ = best_;
    const bool is_large = !best_ || explorer_.Work(best_->shape) >= PartOfBudget(kLargePlan);
    if (is_large) LearnFromSmallerBatch();
    RunRound(1, /*limit_ns=*/0);
    MeetSimplerCuts(/*limit_ns=*/0);
    MeetRivals();
    if (!is_large && !is_part_ && explorer_.num_left() > 0) LearnFromSmallerBatch();
    TuneBestThoroughly();
    return absl::OkStatus();
  }

  // Searches a fraction of the batch, with proportionally fewer micro-batches, and tries its best
  // plans here. So a larger batch is no slower per sample, although the budget allows fewer of its
  // plans. Skips this if even an ideal plan of the smaller batch is slower per sample. A part of
  // a part has less of the budget.
  void LearnFromSmallerBatch() {
    if (!strategy_.tune() || options_.num_micro_batches > 0 || options_.micro_batch_size > 0)
      return;
    for (int times : {4, 2}) {
      PlanOptions part = options_;
      part.global_batch /= times;
      if (is_part_) part.simulation_budget = std::max<int64_t>(1, PartOfBudget(kPartOfPartShare));
      if (options_.global_batch % times != 0 || part.global_batch < cost_.num_devices()) continue;
      Search smaller(strategy_, cost_, part, tables_);
      smaller.is_part_ = true;
      if (!smaller.Find(best_ ? best_->step_ns / times : 0).ok() || !smaller.best_) continue;
      smaller_ns_ = times * smaller.best_->step_ns;
      std::vector<Candidate> known = smaller.BestOfKinds();
      for (const Candidate& candidate : known) TryLarger(candidate, times);
      return;
    }
  }

  // Returns the best candidate and the best of a few other alternatives.
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

  // Tries the same pipeline with `times` as many micro-batches, in the order that its generator
  // makes of them and in the smaller plan's order, repeated. The latter takes at most `times` as
  // long, but for frozen work.
  void TryLarger(const Candidate& smaller, int times) {
    Candidate* const same = FindLarger(smaller, times, &explorer_.candidates());
    Candidate start = smaller;
    start.shape.num_micro_batches *= times;
    start.shape.global_batch *= times;
    start.estimate_ns *= times;
    start.cut.schedule = nullptr;
    std::vector<std::shared_ptr<const Schedule>> orders = {nullptr};
    if (smaller.cut.schedule != nullptr) {
      absl::StatusOr<Schedule> repeated = Repeated(*smaller.cut.schedule, times);
      if (repeated.ok()) orders.push_back(std::make_shared<const Schedule>(*std::move(repeated)));
    }
    for (const auto& order : orders) {
      for (bool frozen_first : {false, true}) {
        if (frozen_first && !smaller.frozen_first) continue;
        Candidate tried = start;
        tried.frozen_first = frozen_first;
        tried.cut.schedule = order;
        if (!explorer_.TryCut(strategy_.tune(), &tried).ok()) continue;
        if (tried.state != Candidate::State::kSimulated) continue;
        if (!best_ || IsBetter(tried, *best_)) best_ = tried;
        if (frozen_first || same == nullptr) continue;
        if (same->state != Candidate::State::kSimulated || IsBetter(tried, *same)) *same = tried;
      }
    }
  }

  // The first round is independent of the second, so a strategy finds no worse plan than one that
  // has only the first round's schedules.
  bool IsOfFirstRound(const Candidate& candidate) const {
    if (candidate.shape.frozen_hosts > 0) return false;
    if (candidate.shape.sharding != first_sharding_) return false;
    return candidate.alternative == 0 || candidate.shape.schedule == "cascaded";
  }

  void RunRound(int round, Nanos limit_ns) {
    // Candidates improved in the first round are now tuned.
    tunes_ = round == 1 && strategy_.tune();
    is_thorough_ = tunes_ && ShapeIsGiven();
    if (tunes_) improved_.clear();
    bool is_needed = tunes_;
    for (Candidate& candidate : explorer_.candidates()) {
      if (candidate.state == Candidate::State::kSimulated && round == 1) continue;
      if (IsOfFirstRound(candidate) != (round == 0)) {
        // Recomputation may make up for a lack of memory.
        const bool again = round == 1 && strategy_.recompute() == "auto" &&
                           candidate.step_ns == 0 &&
                           (candidate.failed_out_of_memory || candidate.exceeds_memory_bound());
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
      Grant(kGivenShapeTuneShare);
      moves_ = PartOfBudget(kMovesShare);
      Improve(kGivenShapeNumTuned, /*by_schedule=*/false);
      // Its own share of the budget is often used up while something still helps.
      moves_ += PartOfBudget(kBestMovesShare);
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

  // A search over S and M spends its budget on many candidates, which often leaves much to gain for
  // one. If a smaller batch has a faster plan per sample, there is something to gain even near the
  // bound.
  void TuneBestThoroughly() {
    if (!strategy_.tune() || ShapeIsGiven() || !best_) return;
    const bool is_behind_smaller = smaller_ns_ > 0 && best_->step_ns > smaller_ns_;
    if (!is_behind_smaller &&
        static_cast<double>(best_->step_ns) <= kNearBound * static_cast<double>(best_->bound_ns)) {
      return;
    }
    is_thorough_ = true;
    moves_ = PartOfBudget(kBestMovesShare);
    ImproveBest(kThoroughShare);
  }

  // Improves the best `count` candidates that differ in schedule or S (if `by_schedule`: in their
  // alternative) with the rest of the budget. Skips candidates improved before.
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
    context.simulate = [this](Nanos step_limit_ns, Candidate* changed) {
      return explorer_.Simulate(step_limit_ns, changed);
    };
    context.work = [this](const PipelineShape& shape) { return explorer_.Work(shape); };
    context.budget = explorer_.budget();
    context.moves = &moves_;
    context.simulated = &simulated_;
    return Improver(std::move(context));
  }

  // Cuts are chosen by estimates. Replaces our plan by one with even layer counts, or with the cuts
  // of minimum bound from which ours are derived, if that is better. With a limit, cuts that are
  // not expected to come near it are skipped, which is not exact. Strategies that tune leave this
  // to their rivals.
  void MeetSimplerCuts(Nanos limit_ns) {
    if (strategy_.tune() || strategy_.partitioner() != "balanced") return;
    // FindBelow has the first round's schedules only.
    std::vector<std::pair<std::string, int>> schedules = {{strategy_.schedule(), 0}};
    if (best_ && best_->alternative != 0) {
      schedules.emplace_back(best_->shape.schedule, best_->alternative);
    }
    for (const auto& [schedule, alternative] : schedules) {
      if (!UsesPartitioner(schedule)) continue;
      for (const char* partitioner : {"uniform", "by_bound"}) {
        Strategy simpler = strategy_;
        simpler.set_schedule(schedule);
        simpler.set_partitioner(partitioner);
        std::optional<Candidate> theirs =
            Search(simpler, cost_, options_, tables_).FindBelow(limit_ns);
        if (!theirs) continue;
        if (alternative != 0) theirs->alternative = alternative;
        if (!best_ || IsBetter(*theirs, *best_)) best_ = theirs;
      }
    }
  }

  // Replaces our plan by a rival's if that is better, as it is or with its frozen work in the
  // bubbles.
  void MeetRivals() {
    bool won = false;
    if (!strategy_.tune() || strategy_.frozen() != "fill") return;
    for (const auto& [alternative, rival] : SimplerStrategies(strategy_, cost_)) {
      // Its filled plans are usually no slower.
      if (best_ && static_cast<double>(explorer_.ExpectedOf(alternative)) >
                       kRivalGain * static_cast<double>(best_->step_ns)) {
        continue;
      }
      std::optional<Candidate> theirs =
          Search(rival, cost_, options_, tables_).FindBelow(best_ ? best_->step_ns : 0);
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
    // A step of all groups together may take longer than one group's.
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
  const SearchTables& tables_;
  Explorer explorer_;
  const Sharding first_sharding_;
  int64_t moves_ = 0;  // allowance of passes moved in joint searches, separate from the budget
  SimulatedCandidates simulated_;
  std::optional<Candidate> best_, best_of_first_round_;
  std::set<CandidateOrder> improved_;
  bool tunes_ = false, is_thorough_ = false;
  // The step of the best plan for a part of the batch, times the number of such parts; 0: unknown.
  Nanos smaller_ns_ = 0;
  bool is_part_ = false;  // searches a part of the batch for another search
};

}  // namespace

absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckStrategy(strategy));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  const SearchTables tables(cost);
  return Search(strategy, cost, options, tables).Run();
}

}  // namespace dpipe
