#include "core/planner/search.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/cost/step_bound.h"
#include "core/planner/build_plan.h"
#include "core/planner/candidate_report.h"
#include "core/planner/candidates.h"
#include "core/planner/estimate.h"
#include "core/planner/frontier.h"
#include "core/planner/improver.h"
#include "core/planner/pair_builder.h"
#include "core/planner/search_work.h"
#include "core/planner/shape.h"
#include "core/planner/strategy.h"
#include "core/schedule/memory.h"
#include "core/schedule/schedule_traits.h"
#include "core/sim/annotate.h"

namespace dpipe {
namespace {

// Candidates expected to take so much longer than the best are not looked at.
constexpr double kMargin = 1.04;
// Of a schedule of which none has been simulated, within a node or across nodes.
constexpr double kFirstMargin = 1.15;
// Of the budget: what looking at candidates and improving the best may take, in the first round and
// in the second.
constexpr double kExploreShare[] = {0.3, 0.3};
constexpr double kImproveShare = 0.2;
// How many of the best are improved, and how much longer than the best they may be before.
constexpr int kNumImproved = 2;
// The same where they are tuned; and where S and M are given, so that candidates differ in little
// but their schedules: there are few, and what looking at many would take improves more of them.
constexpr double kTuneShare = 0.3;
constexpr double kTuneShareOfShape = 5.5;
constexpr int kNumTunedOfShape = 4;
// Then, for the best of them once more; and moves as below.
constexpr double kBestShare = 0.6;
constexpr double kMovesOfBest = 0.12;
// Moves of passes in joint searches, in proportion to the simulation budget, which they do not take
// from.
constexpr double kMovesOfShape = 0.48;
constexpr double kImproveMargin = 1.1;
// Where neither is given, the best candidate is tuned as thoroughly as if they were, if its step is
// so much longer than the lower bound of its stages.
constexpr double kNearBound = 1.02;
constexpr double kThoroughShare = 1.4;
// How much more than its share a search may take that has found nothing that fits in memory.
constexpr double kHopelessShare = 2.0;

class Search {
 public:
  Search(const Strategy& strategy, const CostModel& cost, const PlanOptions& options)
      : strategy_(strategy),
        cost_(cost),
        options_(options),
        estimator_(strategy, cost),
        frontier_(cost.cluster().devices_per_node()),
        pairs_(strategy, {options.global_norm, options.exact}, cost),
        first_sharding_(ShardAlternatives(strategy)[0]),
        work_(cost, pairs_.builder().fills()),
        self_conditioning_(cost.profile().self_conditioning_probability()) {}

  absl::StatusOr<PlanResult> Run() {
    const CandidateSource source(strategy_, cost_, options_, pairs_.builder());
    DPIPE_RETURN_IF_ERROR(source.Check());
    DPIPE_RETURN_IF_ERROR(CheckStepTimes(cost_, options_.global_batch, /*num_steps=*/4));
    candidates_ = source.All(&estimator_, &why_not_);
    for (int round : {0, 1}) {
      StartRound(round);
      Explore();
      budget_ = std::max<int64_t>(0, budget_);
      GrantAndImprove();
      if (round == 0) best_of_first_round_ = best_;
    }
    TuneBestThoroughly();
    if (!best_) return WhyNothing();
    return Result();
  }

 private:
  using Extent = PlanBuilder::Extent;

  // The first round knows nothing of the second: a strategy finds no worse than one that has only
  // the first's schedules.
  bool IsOfFirstRound(const Candidate& candidate) const {
    if (candidate.shape.frozen_hosts > 0) return false;
    if (candidate.shape.sharding != first_sharding_) return false;
    return candidate.alternative == 0 || candidate.shape.schedule == "cascaded";
  }

  void StartRound(int round) {
    budget_ = std::max<int64_t>(0, budget_);
    budget_ += PartOfBudget(kExploreShare[round]);
    // What was improved before is tuned then.
    tunes_ = round == 1 && strategy_.tune();
    is_thorough_ = tunes_ && ShapeIsGiven();
    if (tunes_) improved_.clear();
    for (Candidate& candidate : candidates_) {
      if (IsOfFirstRound(candidate) != (round == 0)) {
        // Lack of memory may be mended by recomputation.
        const bool again = round == 1 && strategy_.recompute() == "auto" &&
                           candidate.step_ns == 0 && candidate.is_out_of_memory;
        if (!again) continue;
        candidate.state = Candidate::State::kUncut;
        candidate.shape.peak_limit = 0;
        candidate.outcome.clear();
      }
      candidate.may_recompute = round == 1;
      frontier_.Add(&candidate);
    }
  }

  bool ShapeIsGiven() const { return options_.num_stages > 0 && options_.num_micro_batches > 0; }

  int64_t PartOfBudget(double share) const {
    const int64_t budget = options_.simulation_budget;
    return static_cast<int64_t>(share * static_cast<double>(budget));
  }

  void GrantAndImprove() {
    budget_ += PartOfBudget(!tunes_        ? kImproveShare
                            : is_thorough_ ? kTuneShareOfShape
                                           : kTuneShare);
    if (is_thorough_) moves_ = PartOfBudget(kMovesOfShape);
    Improve(is_thorough_ ? kNumTunedOfShape : kNumImproved);
    if (!is_thorough_ || !best_ || !options_.refine) return;
    // Its own part of the budget has often been used up while something still helped.
    budget_ = std::max<int64_t>(0, budget_) + PartOfBudget(kBestShare);
    moves_ += PartOfBudget(kMovesOfBest);
    const Candidate improved = MakeImprover().Improved(*best_);
    if (Better(improved, *best_)) best_ = improved;
  }

  // What a search over S and M spends on many candidates often leaves much to gain by one.
  void TuneBestThoroughly() {
    if (!strategy_.tune() || !options_.refine || ShapeIsGiven() || !best_) return;
    if (static_cast<double>(best_->step_ns) <= kNearBound * static_cast<double>(best_->bound_ns)) {
      return;
    }
    is_thorough_ = true;
    budget_ = PartOfBudget(kThoroughShare);
    moves_ = PartOfBudget(kMovesOfBest);
    const Candidate improved = MakeImprover().Improved(*best_);
    if (Better(improved, *best_)) best_ = improved;
  }

  void Reject(Candidate* candidate, const absl::Status& status) {
    candidate->outcome = absl::StrCat("no plan: ", status.message());
    // Lack of memory says more than a number that does not divide.
    if (why_not_.ok() || why_not_.code() != absl::StatusCode::kResourceExhausted) {
      why_not_ = status;
    }
  }

  int64_t Work(const PipelineShape& shape) {
    const CostModel& cost = pairs_.builder().CostOf(shape, Extent::kOneGroup);
    return work_.OfPlan(shape, cost.num_devices());
  }

  bool Better(const Candidate& a, const Candidate& b) const {
    return std::make_tuple(a.step_ns, Order(a)) < std::make_tuple(b.step_ns, Order(b));
  }

  // Candidates in the order of what is expected of them, until nothing better is.
  void Explore() {
    while (Candidate* candidate = frontier_.Next()) {
      if (IsOver(*candidate)) break;
      if (found_ && !IsWorthIt(*candidate)) continue;
      const absl::Status status = Advance(candidate);
      if (!status.ok()) Reject(candidate, status);
      if (candidate->state == Candidate::State::kCut) frontier_.Add(candidate);
    }
    frontier_.Clear();
  }

  // Whether neither the next candidate nor what comes after it is worth a look. Those that lack
  // memory come last: one of them is looked at, where nothing else says how much there is too
  // little.
  bool IsOver(const Candidate& next) const {
    if (found_) return budget_ <= 0 || next.lacks_memory;
    if (next.lacks_memory && absl::IsResourceExhausted(why_not_)) return true;
    if (budget_ > -PartOfBudget(kHopelessShare)) return false;
    return absl::IsResourceExhausted(why_not_);
  }

  bool IsWorthIt(const Candidate& candidate) {
    const int64_t work =
        candidate.state == Candidate::State::kUncut ? work_.OfCut(candidate.shape) : 0;
    return budget_ >= work + Work(candidate.shape) && !frontier_.IsRepeated(candidate) &&
           static_cast<double>(frontier_.Expected(candidate)) <
               (frontier_.KnowsStepsLike(candidate) ? kMargin : kFirstMargin) *
                   static_cast<double>(found_->step_ns);
  }

  // One step further: cuts it, or simulates what has been cut. Schedules that can do with less
  // memory are asked to where there is not enough: twice what 1F1B keeps, then as much.
  absl::Status Advance(Candidate* candidate) {
    absl::Status status =
        candidate->state == Candidate::State::kUncut ? Cut(candidate) : SimulateFound(candidate);
    const int stages = StagesPerDevice(*candidate);
    for (int share : {2, 1}) {
      if (!absl::IsResourceExhausted(status) || stages == 0) break;
      const int limit = share * candidate->shape.num_stages * stages;
      if (candidate->shape.peak_limit > 0 && candidate->shape.peak_limit <= limit) continue;
      candidate->shape.peak_limit = limit;
      const absl::Status again = Cut(candidate);
      if (absl::IsInvalidArgument(again)) break;  // it has no choice
      status = again;
    }
    candidate->is_out_of_memory = absl::IsResourceExhausted(status);
    return status;
  }

  // 0 where the schedule does not look at costs and so not at limits.
  static int StagesPerDevice(const Candidate& candidate) {
    const absl::StatusOr<ScheduleTraits> traits = TraitsOf(candidate.shape.schedule);
    if (!traits.ok() || !traits->takes_costs) return 0;
    return candidate.shape.stages_per_device > 0 ? candidate.shape.stages_per_device
                                                 : traits->stages_per_device;
  }

  absl::Status Cut(Candidate* candidate) {
    candidate->state = Candidate::State::kDone;
    budget_ -= work_.OfCut(candidate->shape);
    PlanBuilder& builder = pairs_.Of(*candidate);
    absl::StatusOr<PipelineCut> cut = builder.Cut(candidate->shape);
    // What ends a search that finds nothing must not starve one that has a plan already.
    if (!found_ && absl::IsResourceExhausted(cut.status())) {
      budget_ -= work_.OfFailedCut(candidate->shape);
    }
    DPIPE_ASSIGN_OR_RETURN(candidate->cut, std::move(cut));
    const Nanos bound_ns = builder.LowerBound(candidate->shape, candidate->cut);
    if (found_ && bound_ns > found_->step_ns) {
      candidate->outcome =
          absl::StrCat("not simulated: no step of it is shorter than ", FormatDuration(bound_ns));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(Schedule schedule, builder.ScheduleOf(candidate->shape, candidate->cut));
    candidate->cut_estimate_ns = estimator_.EstimateCut(candidate->shape, candidate->cut, schedule);
    // Layers that move later need not change the order of the passes, and making one takes time.
    candidate->cut.schedule = std::make_shared<const Schedule>(std::move(schedule));
    frontier_.LearnCut(*candidate);
    candidate->state = Candidate::State::kCut;
    return absl::OkStatus();
  }

  absl::Status SimulateFound(Candidate* candidate) {
    ++num_simulated_;
    DPIPE_RETURN_IF_ERROR(Simulate(found_ ? found_->step_ns : 0, candidate));
    frontier_.LearnStep(*candidate, candidate->step_ns);
    if (candidate->state != Candidate::State::kSimulated) {
      candidate->outcome = absl::StrCat("not filled: without any frozen work its step takes ",
                                        FormatDuration(candidate->step_ns));
      candidate->step_ns = 0;
    } else if (!found_ || Better(*candidate, *found_)) {
      found_ = *candidate;
    }
    return absl::OkStatus();
  }

  // Builds the candidate's plan; if that shows to be longer than `give_up_ns`, not to the end.
  absl::Status Simulate(Nanos give_up_ns, Candidate* candidate) {
    candidate->state = Candidate::State::kDone;
    budget_ -= Work(candidate->shape);
    DPIPE_ASSIGN_OR_RETURN(const PlanPair built,
                           pairs_.Build(*candidate, Extent::kOneGroup, give_up_ns));
    if (built.plain.gave_up) {
      candidate->step_ns = built.expected_step_ns;
      budget_ += Work(candidate->shape) * 2 / 3;
      return absl::OkStatus();
    }
    // What is verified in the end; only memory depends on the choice.
    const CostModel& cost = pairs_.Of(*candidate).CostOf(candidate->shape, Extent::kOneGroup);
    DPIPE_RETURN_IF_ERROR(CheckMemory(built.plain.plan, cost));
    if (self_conditioning_ > 0) {
      DPIPE_RETURN_IF_ERROR(CheckMemory(built.self_conditioned.plan, cost));
    }
    candidate->step_ns = built.expected_step_ns;
    candidate->bound_ns = pairs_.LowerBound(*candidate, built);
    candidate->bubble_ratio = built.plain.bubble_ratio;
    candidate->finish_ns = built.plain.finish_ns;
    candidate->state = Candidate::State::kSimulated;
    return absl::OkStatus();
  }

  // The best `count` that differ in schedule or S, with what is left of the budget; those improved
  // before are not again.
  void Improve(int count) {
    std::vector<Candidate*> simulated;
    for (Candidate& candidate : candidates_) {
      if (candidate.state == Candidate::State::kSimulated) simulated.push_back(&candidate);
    }
    std::sort(simulated.begin(), simulated.end(),
              [this](const Candidate* a, const Candidate* b) { return Better(*a, *b); });
    if (!simulated.empty() && (!best_ || Better(*simulated[0], *best_))) best_ = *simulated[0];
    std::set<std::pair<int, int>> kinds;
    std::vector<Candidate*> chosen;
    for (Candidate* candidate : simulated) {
      if (!options_.refine || static_cast<int>(chosen.size()) == count) break;
      if (candidate->step_ns > kImproveMargin * simulated[0]->step_ns) break;
      if (!kinds.insert({candidate->alternative, candidate->shape.num_stages}).second) continue;
      if (improved_.insert(Order(*candidate)).second) chosen.push_back(candidate);
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      const int64_t later = budget_ - budget_ / static_cast<int64_t>(chosen.size() - i);
      budget_ -= later;
      const int64_t later_moves = moves_ - moves_ / static_cast<int64_t>(chosen.size() - i);
      moves_ -= later_moves;
      const bool is_best = Order(*chosen[i]) == Order(*best_);
      const Candidate improved = MakeImprover().Improved(is_best ? *best_ : *chosen[i]);
      budget_ += later;
      moves_ += later_moves;
      if (Better(improved, *best_)) best_ = improved;
    }
  }

  Improver MakeImprover() {
    ImproverContext context;
    context.cost = &cost_;
    context.pairs = &pairs_;
    context.moves_layers = strategy_.partitioner() == "balanced";
    context.tunes = tunes_;
    context.thorough = is_thorough_;
    context.simulate = [this](Nanos give_up_ns, Candidate* changed) {
      return Simulate(give_up_ns, changed);
    };
    context.work = [this](const PipelineShape& shape) { return Work(shape); };
    context.budget = &budget_;
    context.moves = &moves_;
    context.simulated = &simulated_;
    return Improver(std::move(context));
  }

  absl::Status WhyNothing() const {
    if (why_not_.ok()) {
      return absl::InvalidArgumentError("no number of stages and micro-batches fits");
    }
    const auto tried = std::count_if(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& candidate) { return candidate.state != Candidate::State::kUncut; });
    const auto hopeful =
        std::count_if(candidates_.begin(), candidates_.end(),
                      [](const Candidate& candidate) { return !candidate.lacks_memory; });
    if (tried >= hopeful) return why_not_;
    return absl::Status(
        why_not_.code(),
        absl::StrCat(std::string(why_not_.message()), "; the budget ended after ", tried, " of ",
                     candidates_.size(), " choices: raise simulation_budget to look further"));
  }

  absl::StatusOr<PlanResult> Result() {
    DPIPE_ASSIGN_OR_RETURN(PlanPair built, pairs_.Build(*best_, Extent::kWhole));
    // Of all groups together a step may take longer than one group's.
    if (best_of_first_round_ && built.expected_step_ns > best_of_first_round_->step_ns &&
        Order(*best_of_first_round_) != Order(*best_)) {
      absl::StatusOr<PlanPair> other = pairs_.Build(*best_of_first_round_, Extent::kWhole);
      if (other.ok() && other->expected_step_ns < built.expected_step_ns) {
        built = *std::move(other);
        best_ = best_of_first_round_;
      }
    }
    PlanResult result;
    result.plan = std::move(built.plain.plan);
    DPIPE_RETURN_IF_ERROR(
        AnnotatePrediction(&result.plan, cost_, built.plain.unfilled_bubble_ratio));
    if (self_conditioning_ > 0) {
      result.self_conditioned_plan = std::move(built.self_conditioned.plan);
      DPIPE_RETURN_IF_ERROR(AnnotatePrediction(&result.self_conditioned_plan, cost_,
                                               built.self_conditioned.unfilled_bubble_ratio));
    }
    best_->step_ns = built.expected_step_ns;
    result.expected_step_ns = built.expected_step_ns;
    result.num_considered = static_cast<int>(candidates_.size());
    result.num_simulated = num_simulated_;
    // Simulated ones by step, then the others in the order of their estimates.
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [this](const Candidate& a, const Candidate& b) {
                       if ((a.step_ns > 0) != (b.step_ns > 0)) return a.step_ns > 0;
                       return a.step_ns > 0 && Better(a, b);
                     });
    result.candidates.push_back(Report(*best_, "chosen"));
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int>(result.candidates.size()) >= options_.num_candidates) break;
      if (Order(candidate) == Order(*best_)) continue;
      result.candidates.push_back(Report(candidate, WhyItLost(candidate, best_->step_ns)));
    }
    return result;
  }

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  StepEstimator estimator_;
  Frontier frontier_;
  PairBuilder pairs_;
  const Sharding first_sharding_;
  const SearchWork work_;
  const double self_conditioning_;  // probability
  int64_t budget_ = 0;
  int64_t moves_ = 0;  // of passes in joint searches, beside the budget
  SimulatedCandidates simulated_;
  std::vector<Candidate> candidates_;
  absl::Status why_not_;
  std::optional<Candidate> found_;  // the best as first cut
  std::optional<Candidate> best_, best_of_first_round_;
  std::set<CandidateOrder> improved_;
  bool tunes_ = false, is_thorough_ = false;
  int num_simulated_ = 0;
};

}  // namespace

absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckStrategy(strategy));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  return Search(strategy, cost, options).Run();
}

}  // namespace dpipe
