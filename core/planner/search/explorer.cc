#include "core/planner/search/explorer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/search/candidates.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// Candidates expected to take this much longer than the best are not explored. The first factor
// applies if a step of the same schedule, within a node or across nodes, has been simulated;
// otherwise the second applies.
constexpr double kMargin = 1.04;
constexpr double kFirstMargin = 1.15;
// The gain that tuning usually brings. If candidates are tuned, a plan is filled even if it takes
// this much longer than the best without any frozen work.
constexpr double kTunedMargin = 1.08;
// A search with a limit ends if the next expected step is this much longer.
constexpr double kLimitMargin = 1.08;
// The fraction of a schedule's idle time that tuning cannot remove.
constexpr double kMinRampShare = 0.3;
// Minimum number of candidates to simulate, even if one large plan uses up the budget.
constexpr int kMinSimulated = 4;
// A search that has found nothing that fits in memory may take this many times the budget.
constexpr int kNothingFitsFactor = 20;
// Once it finds something, it has at least this fraction of the budget left.
constexpr double kMinShareOnceFound = 0.2;

// Returns 0 if the schedule does not look at costs and so ignores limits.
int StagesPerDevice(const PipelineShape& shape) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  if (!traits.ok() || !traits->takes_costs) return 0;
  return shape.stages_per_device > 0 ? shape.stages_per_device : traits->stages_per_device;
}

// Lowers the schedule's peak to twice that of 1F1B, then to that of 1F1B. Returns false if it
// cannot.
bool LowerPeak(PipelineShape* shape) {
  const int stages = StagesPerDevice(*shape);
  for (int share : {2, 1}) {
    const int limit = share * shape->num_stages * stages;
    if (limit == 0 || (shape->peak_limit > 0 && shape->peak_limit <= limit)) continue;
    shape->peak_limit = limit;
    return true;
  }
  return false;
}

}  // namespace

Explorer::Explorer(const Strategy& strategy, const CostModel& cost, const PlanOptions& options,
                   const SearchTables& tables)
    : strategy_(strategy),
      cost_(cost),
      options_(options),
      estimator_(strategy, cost, tables.estimates),
      frontier_(cost.cluster().devices_per_node()),
      pairs_(strategy, {options.global_norm, options.exact, tables.plans}, cost),
      work_(cost, pairs_.builder().fills()),
      self_conditioning_(cost.profile().self_conditioning_probability()) {}

absl::Status Explorer::Prepare() {
  const CandidateSource source(strategy_, cost_, options_, pairs_.builder());
  DPIPE_RETURN_IF_ERROR(source.Check());
  candidates_ = source.All(&estimator_, &why_not_);
  return absl::OkStatus();
}

// Uses the lowest peak that the schedule supports.
double Explorer::MemoryShareOf(Candidate candidate) {
  PlanBuilder& builder = pairs_.Of(candidate);
  double least = builder.MemoryShare(candidate.shape).value_or(0);
  while (least > 1 && LowerPeak(&candidate.shape)) {
    const std::optional<double> share = builder.MemoryShare(candidate.shape);
    if (!share) break;
    least = std::min(least, *share);
  }
  return least;
}

void Explorer::Add(bool may_recompute, Candidate* candidate) {
  candidate->may_recompute = false;
  const double without = MemoryShareOf(*candidate);
  candidate->memory_share = without;
  candidate->may_recompute = may_recompute;
  if (may_recompute && strategy_.recompute() == "auto" && without > 1) {
    candidate->memory_share = MemoryShareOf(*candidate);
    // Recompute as much as memory is lacking.
    const double share =
        candidate->memory_share > 1 ? 1 : (without - 1) / (without - candidate->memory_share);
    candidate->estimate_ns = estimator_.EstimateRecomputing(candidate->shape, share);
  }
  if (candidate->exceeds_memory_bound()) {
    candidate->outcome =
        absl::StrFormat("no plan: any cut of it needs at least %.2f times the memory of a device",
                        candidate->memory_share);
  }
  frontier_.Add(candidate);
}

Nanos Explorer::MinIdealStep(bool tunes) {
  Nanos least = 0;
  for (const Candidate& candidate : candidates_) {
    if (MemoryShareOf(candidate) > 1) continue;
    const Nanos ideal = estimator_.Ideal(candidate.shape, tunes ? kMinRampShare : 1);
    least = least == 0 ? ideal : std::min(least, ideal);
  }
  return least;
}

Nanos Explorer::ExpectedOf(int alternative) {
  Nanos least = std::numeric_limits<Nanos>::max();
  bool is_known = false;
  for (const Candidate& candidate : candidates_) {
    if (candidate.alternative != alternative) continue;
    is_known = true;
    if (candidate.exceeds_memory_bound()) continue;
    if (candidate.failed_out_of_memory) {
      if (!candidate.cut.stages.empty()) return 0;
      continue;
    }
    Nanos expected = candidate.step_ns;
    if (expected == 0) {
      expected = frontier_.KnowsStepsLike(candidate)
                     ? frontier_.Expected(candidate)
                     : estimator_.Ideal(candidate.shape, /*ramp_share=*/1);
    }
    least = std::min(least, expected);
  }
  return least == std::numeric_limits<Nanos>::max() && !is_known ? 0 : least;
}

int64_t Explorer::PartOfBudget(double share) const {
  return static_cast<int64_t>(share * static_cast<double>(options_.simulation_budget));
}

int64_t Explorer::Work(const PipelineShape& shape) {
  const CostModel& cost = pairs_.builder().CostOf(shape, PlanBuilder::Extent::kOneGroup);
  return work_.OfPlan(shape, cost.num_devices());
}

void Explorer::Reject(Candidate* candidate, const absl::Status& status) {
  candidate->outcome = absl::StrCat("no plan: ", status.message());
  // A lack of memory says more than a number that does not divide.
  if (why_not_.ok() || why_not_.code() != absl::StatusCode::kResourceExhausted) {
    why_not_ = status;
  }
}

void Explorer::Run(Nanos limit_ns, bool tunes) {
  const int least = num_simulated_ + kMinSimulated;
  const auto next = [this] {
    return found_ || budget_ > 0 ? frontier_.Next() : frontier_.NextByMemory();
  };
  while (Candidate* candidate = next()) {
    if (IsOver(*candidate, limit_ns)) break;
    if (SharesOutcome(candidate)) continue;
    if (found_ && !IsExpectedToHelp(*candidate)) continue;
    if (found_ && num_simulated_ >= least) {
      const int64_t cut =
          candidate->state == Candidate::State::kUncut ? work_.OfCut(candidate->shape) : 0;
      if (budget_ < cut + Work(candidate->shape)) {
        ++num_left_;
        continue;
      }
    }
    const absl::Status status = Advance(tunes, candidate);
    if (!status.ok()) Reject(candidate, status);
    if (candidate->state == Candidate::State::kCut) {
      frontier_.Add(candidate);
    } else {
      frontier_.LearnOutcome(*candidate);
    }
  }
  frontier_.Clear();
}

// True if an equal candidate has been explored; if that has no plan, neither has this one.
bool Explorer::SharesOutcome(Candidate* candidate) const {
  const Candidate* const explored = frontier_.RepresentativeOf(*candidate);
  if (explored == nullptr) return false;
  if (explored->state == Candidate::State::kDone) {
    candidate->state = Candidate::State::kDone;
    candidate->failed_out_of_memory = explored->failed_out_of_memory;
    candidate->outcome = explored->outcome;
  }
  return true;
}

// True if neither the next candidate nor the later ones are worth exploring. Candidates that lack
// memory come last. One of them is explored if no other error says how much memory is lacking.
bool Explorer::IsOver(const Candidate& next, Nanos limit_ns) const {
  if (limit_ns > 0 && (found_ || next.state == Candidate::State::kCut) &&
      static_cast<double>(frontier_.Expected(next)) > kLimitMargin * limit_ns) {
    return true;
  }
  if (found_) return next.exceeds_memory_bound();
  if (next.exceeds_memory_bound() && absl::IsResourceExhausted(why_not_)) return true;
  return budget_ <= -PartOfBudget(kNothingFitsFactor) && absl::IsResourceExhausted(why_not_);
}

bool Explorer::IsExpectedToHelp(const Candidate& candidate) {
  const double margin = frontier_.KnowsStepsLike(candidate) ? kMargin : kFirstMargin;
  return !candidate.exceeds_memory_bound() &&
         static_cast<double>(frontier_.Expected(candidate)) <
             margin * static_cast<double>(found_->step_ns) &&
         estimator_.Ideal(candidate.shape, kMinRampShare) < found_->step_ns;
}

// Advances the candidate one step: cuts it, or simulates it if it has a cut. If memory is lacking,
// asks the schedule to use less, if it can.
absl::Status Explorer::Advance(bool tunes, Candidate* candidate) {
  absl::Status status = candidate->state == Candidate::State::kUncut
                            ? CutWithin(candidate)
                            : SimulateFound(tunes, candidate);
  while (absl::IsResourceExhausted(status) && LowerPeak(&candidate->shape)) {
    const absl::Status again = CutWithin(candidate);
    if (absl::IsInvalidArgument(again)) break;  // the schedule has no such limit
    status = again;
  }
  candidate->failed_out_of_memory = absl::IsResourceExhausted(status);
  return status;
}

// Skips cuts that cannot fit, unless there is nothing else to try.
absl::Status Explorer::CutWithin(Candidate* candidate) {
  candidate->state = Candidate::State::kDone;
  const std::optional<double> share = candidate->exceeds_memory_bound()
                                          ? std::nullopt
                                          : pairs_.Of(*candidate).MemoryShare(candidate->shape);
  if (!share || *share <= 1) return Cut(candidate);
  return absl::ResourceExhaustedError(
      absl::StrFormat("any cut needs at least %.2f times the memory of a device", *share));
}

absl::Status Explorer::Cut(Candidate* candidate) {
  budget_ -= work_.OfCut(candidate->shape);
  PlanBuilder& builder = pairs_.Of(*candidate);
  DPIPE_ASSIGN_OR_RETURN(candidate->cut, builder.Cut(candidate->shape));
  const Nanos bound_ns = builder.LowerBound(candidate->shape, candidate->cut);
  if (found_ && bound_ns > found_->step_ns) {
    candidate->outcome =
        absl::StrCat("not simulated: its step takes at least ", FormatDuration(bound_ns));
    return absl::OkStatus();
  }
  return EstimateCut(candidate);
}

absl::Status Explorer::EstimateCut(Candidate* candidate) {
  DPIPE_ASSIGN_OR_RETURN(Schedule schedule,
                         pairs_.Of(*candidate).ScheduleOf(candidate->shape, candidate->cut));
  candidate->cut_estimate_ns = estimator_.EstimateCut(candidate->shape, candidate->cut, schedule);
  // Keep the order: moving layers later need not change it, and making one takes time.
  candidate->cut.schedule = std::make_shared<const Schedule>(std::move(schedule));
  frontier_.LearnCut(*candidate);
  candidate->state = Candidate::State::kCut;
  return absl::OkStatus();
}

absl::Status Explorer::TryCut(bool tunes, Candidate* candidate) {
  candidate->state = Candidate::State::kDone;
  DPIPE_RETURN_IF_ERROR(EstimateCut(candidate));
  return SimulateFound(tunes, candidate);
}

absl::Status Explorer::SimulateFound(bool tunes, Candidate* candidate) {
  ++num_simulated_;
  const double margin = tunes ? kTunedMargin : 1;
  const Nanos step_limit_ns =
      found_ ? static_cast<Nanos>(margin * static_cast<double>(found_->step_ns)) : 0;
  DPIPE_RETURN_IF_ERROR(Simulate(step_limit_ns, candidate));
  frontier_.LearnStep(*candidate, candidate->step_ns);
  if (candidate->state != Candidate::State::kSimulated) {
    candidate->outcome = absl::StrCat("not filled: without any frozen work its step takes ",
                                      FormatDuration(candidate->step_ns));
    candidate->step_ns = 0;
  } else if (!found_ || IsBetter(*candidate, *found_)) {
    // The rest of the budget was spent on finding anything at all.
    if (!found_) budget_ = std::max(budget_, PartOfBudget(kMinShareOnceFound));
    found_ = *candidate;
  }
  return absl::OkStatus();
}

absl::Status Explorer::Simulate(Nanos step_limit_ns, Candidate* candidate) {
  candidate->state = Candidate::State::kDone;
  budget_ -= Work(candidate->shape);
  DPIPE_ASSIGN_OR_RETURN(const PlanPair built,
                         pairs_.Build(*candidate, PlanBuilder::Extent::kOneGroup, step_limit_ns));
  if (built.plain.exceeded_limit) {
    candidate->step_ns = built.expected_step_ns;
    budget_ += Work(candidate->shape) * 2 / 3;
    return absl::OkStatus();
  }
  // This is what the final verification checks; only memory depends on the choice.
  const CostModel& cost =
      pairs_.Of(*candidate).CostOf(candidate->shape, PlanBuilder::Extent::kOneGroup);
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

absl::Status Explorer::NothingFitsError() const {
  if (why_not_.ok()) {
    return absl::InvalidArgumentError("no number of stages and micro-batches fits");
  }
  const auto tried = std::count_if(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& candidate) { return candidate.state != Candidate::State::kUncut; });
  const auto hopeful =
      std::count_if(candidates_.begin(), candidates_.end(),
                    [](const Candidate& candidate) { return !candidate.exceeds_memory_bound(); });
  if (tried >= hopeful) return why_not_;
  return absl::Status(
      why_not_.code(),
      absl::StrCat(std::string(why_not_.message()), "; the budget ended after ", tried, " of ",
                   candidates_.size(), " choices: raise simulation_budget to look further"));
}

}  // namespace dpipe
