#include "core/planner/search.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/planner/build_plan.h"
#include "core/planner/estimate.h"
#include "core/planner/pipeline_cut.h"
#include "core/planner/shape.h"
#include "core/planner/strategy.h"
#include "core/schedule/memory.h"
#include "core/schedule/schedule_traits.h"
#include "core/sim/annotate.h"

namespace dpipe {
namespace {

// More micro-batches than so many a pipeline device hide little more and are not looked at unless
// asked for.
constexpr int kMaxMicroBatchesPerStage = 8;

// A shape on its way through the search.
struct Candidate {
  PipelineShape shape;
  int alternative = 0;  // which of the strategy's schedules
  Nanos estimate_ns = 0;
  bool lacks_memory = false;  // by the mean of the devices' weights, gradients and moments
  PipelineCut cut;            // once it has been partitioned
  Nanos step_ns = 0;          // expected; 0: not simulated
  double bubble_ratio = 0;
  std::string outcome;
};

auto Order(const Candidate& candidate) {
  const PipelineShape& shape = candidate.shape;
  return std::make_tuple(shape.num_stages, shape.num_micro_batches, shape.devices_per_pipeline,
                         candidate.alternative, shape.peak_limit);
}

// A plan and, with self-conditioning, its twin.
struct PlanPair {
  BuiltPlan plain, self_conditioned;
  Nanos expected_step_ns = 0;
};

class Search {
 public:
  Search(const Strategy& strategy, const CostModel& cost, const PlanOptions& options)
      : strategy_(strategy),
        cost_(cost),
        options_(options),
        builder_(strategy, BuildOptionsOf(options), cost),
        self_conditioning_(cost.profile().self_conditioning_probability()),
        budget_(options.simulation_budget) {}

  absl::StatusOr<PlanResult> Run() {
    DPIPE_RETURN_IF_ERROR(CheckRequest());
    MakeCandidates();
    for (Candidate& candidate : candidates_) Try(&candidate);
    if (!best_) return WhyNothing();
    if (options_.refine && strategy_.partitioner() == "balanced") Refine();
    if (options_.refine && builder_.fills()) OrderWeightGradients();
    return Result();
  }

 private:
  using Extent = PlanBuilder::Extent;

  static BuildOptions BuildOptionsOf(const PlanOptions& options) {
    BuildOptions build;
    build.global_norm = options.global_norm;
    build.exact = options.exact;
    return build;
  }

  absl::Status CheckRequest() const {
    if (options_.global_batch < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the global batch must be at least 1 sample; got ", options_.global_batch));
    }
    const std::pair<const char*, int> counts[] = {
        {"num_stages", options_.num_stages},
        {"num_micro_batches", options_.num_micro_batches},
        {"micro_batch_size", options_.micro_batch_size},
        {"devices_per_pipeline", options_.devices_per_pipeline},
        {"stages_per_device", options_.stages_per_device}};
    for (const auto& [name, value] : counts) {
      if (value < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " must be at least 1, or 0 for a search; got ", value));
      }
    }
    return absl::OkStatus();
  }

  ShapeRequest Request(const std::string& schedule) const {
    ShapeRequest request;
    request.schedule = schedule;
    request.num_devices = cost_.num_devices();
    request.global_batch = options_.global_batch;
    request.num_stages = options_.num_stages;
    request.num_micro_batches = options_.num_micro_batches;
    request.micro_batch_size = options_.micro_batch_size;
    request.devices_per_pipeline = options_.devices_per_pipeline;
    request.stages_per_device = options_.stages_per_device;
    request.max_micro_batches_per_stage = kMaxMicroBatchesPerStage;
    const bool cuts = !builder_.cached() && !cost_.frozen_components().empty();
    request.frozen_quantum = cuts ? cost_.frozen_quantum() : 1;
    return request;
  }

  // Schedules of several backbones at once are alternatives for models that have as many.
  bool SuitsBackbones(const std::string& schedule) const {
    const absl::StatusOr<ScheduleTraits> traits = TraitsOf(schedule);
    return traits.ok() && (traits->num_backbones == 1 ||
                           traits->num_backbones == static_cast<int>(cost_.backbones().size()));
  }

  // Every shape, each schedule's most promising one before any schedule's second, and the others by
  // their estimates.
  void MakeCandidates() {
    StepEstimator estimator(strategy_, cost_);
    const std::vector<std::string> schedules = ScheduleAlternatives(strategy_);
    std::vector<bool> has_first(schedules.size(), false);
    for (size_t i = 0; i < schedules.size(); ++i) {
      if (schedules.size() > 1 && !SuitsBackbones(schedules[i])) continue;
      absl::Status why;
      for (PipelineShape& shape : EnumerateShapes(Request(schedules[i]), &why)) {
        Candidate candidate;
        candidate.shape = shape;
        candidate.alternative = static_cast<int>(i);
        candidate.estimate_ns = estimator.Estimate(shape);
        candidate.lacks_memory = builder_.LacksMemory(shape);
        candidates_.push_back(std::move(candidate));
      }
      if (why_not_.ok()) why_not_ = why;
    }
    const auto by_estimate = [](const Candidate& a, const Candidate& b) {
      return std::make_tuple(a.lacks_memory, a.estimate_ns, Order(a)) <
             std::make_tuple(b.lacks_memory, b.estimate_ns, Order(b));
    };
    std::sort(candidates_.begin(), candidates_.end(), by_estimate);
    std::stable_partition(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
      const bool first = !has_first[candidate.alternative] && !candidate.lacks_memory;
      if (first) has_first[candidate.alternative] = true;
      return first;
    });
  }

  void Reject(Candidate* candidate, const absl::Status& status) {
    candidate->outcome = absl::StrCat("no plan: ", status.message());
    // Lack of memory says more than a number that does not divide.
    if (why_not_.ok() || why_not_.code() != absl::StatusCode::kResourceExhausted) {
      why_not_ = status;
    }
  }

  // A deterministic stand-in for the time that lowering and simulating takes.
  int64_t Work(const PipelineShape& shape) {
    const int devices = builder_.CostOf(shape, Extent::kOneGroup).num_devices();
    const int64_t instructions = int64_t{6} * devices * shape.num_micro_batches + 20 * devices;
    return instructions * (builder_.fills() ? 3 : 1) * (self_conditioning_ > 0 ? 2 : 1);
  }

  bool Better(const Candidate& a, const Candidate& b) const {
    return std::make_tuple(a.step_ns, Order(a)) < std::make_tuple(b.step_ns, Order(b));
  }

  void Try(Candidate* candidate) {
    if (best_ && candidate->lacks_memory) {
      candidate->outcome =
          absl::StrCat("no plan: weights, gradients and moments over ", candidate->shape.num_stages,
                       " devices take more memory than there is");
      return;
    }
    if (best_ && budget_ < Work(candidate->shape)) {
      candidate->outcome =
          absl::StrCat("not simulated: its estimated step of ",
                       FormatDuration(candidate->estimate_ns), " ranks behind those that were");
      return;
    }
    absl::Status status = TryOnce(candidate);
    // Schedules that can do with less memory are asked to: twice what 1F1B keeps, then as much.
    const int stages = StagesPerDevice(*candidate);
    for (int share : {2, 1}) {
      if (!absl::IsResourceExhausted(status) || stages == 0) break;
      candidate->shape.peak_limit = share * candidate->shape.num_stages * stages;
      const absl::Status again = TryOnce(candidate);
      if (absl::IsInvalidArgument(again)) break;  // it has no choice
      status = again;
    }
    if (!status.ok()) Reject(candidate, status);
  }

  // 0 where the schedule does not look at costs and so not at limits.
  static int StagesPerDevice(const Candidate& candidate) {
    const absl::StatusOr<ScheduleTraits> traits = TraitsOf(candidate.shape.schedule);
    if (!traits.ok() || !traits->takes_costs) return 0;
    return candidate.shape.stages_per_device > 0 ? candidate.shape.stages_per_device
                                                 : traits->stages_per_device;
  }

  absl::Status TryOnce(Candidate* candidate) {
    DPIPE_ASSIGN_OR_RETURN(candidate->cut, builder_.Cut(candidate->shape));
    const Nanos bound_ns = builder_.LowerBound(candidate->shape, candidate->cut);
    if (best_ && bound_ns > best_->step_ns) {
      candidate->outcome =
          absl::StrCat("not simulated: no step of it is shorter than ", FormatDuration(bound_ns));
      return absl::OkStatus();
    }
    return Simulate(candidate);
  }

  absl::StatusOr<PlanPair> Build(const Candidate& candidate, Extent extent) {
    PlanPair pair;
    DPIPE_ASSIGN_OR_RETURN(pair.plain, BuildBetter(candidate, extent, false));
    pair.expected_step_ns = pair.plain.step_ns;
    if (self_conditioning_ > 0) {
      DPIPE_ASSIGN_OR_RETURN(pair.self_conditioned, BuildBetter(candidate, extent, true));
      pair.expected_step_ns = static_cast<Nanos>(
          self_conditioning_ * static_cast<double>(pair.self_conditioned.step_ns) +
          (1 - self_conditioning_) * static_cast<double>(pair.plain.step_ns));
    }
    return pair;
  }

  // The plan handed out is never worse than the same with its frozen work first: where filling is,
  // it is not done.
  absl::StatusOr<BuiltPlan> BuildBetter(const Candidate& candidate, Extent extent,
                                        bool self_conditioning) {
    DPIPE_ASSIGN_OR_RETURN(
        BuiltPlan built, builder_.Build(candidate.shape, candidate.cut, extent, self_conditioning));
    if (!builder_.fills() || extent != Extent::kWhole) return built;
    absl::StatusOr<BuiltPlan> first =
        builder_.BuildFrozenFirst(candidate.shape, candidate.cut, extent, self_conditioning);
    if (!first.ok() || first->step_ns >= built.step_ns) return built;
    return CheckMemory(first->plan, builder_.CostOf(candidate.shape, extent)).ok() ? *first : built;
  }

  // Builds the candidate's plan and keeps it if it is the best so far.
  absl::Status Simulate(Candidate* candidate) {
    budget_ -= Work(candidate->shape);
    ++num_simulated_;
    DPIPE_ASSIGN_OR_RETURN(PlanPair built, Build(*candidate, Extent::kOneGroup));
    candidate->step_ns = built.expected_step_ns;
    candidate->bubble_ratio = built.plain.bubble_ratio;
    if (best_ && !Better(*candidate, *best_)) return absl::OkStatus();
    // What is verified in the end; only memory depends on the choice.
    const CostModel& cost = builder_.CostOf(candidate->shape, Extent::kOneGroup);
    absl::Status fits = CheckMemory(built.plain.plan, cost);
    if (fits.ok() && self_conditioning_ > 0) {
      fits = CheckMemory(built.self_conditioned.plan, cost);
    }
    if (!fits.ok()) {
      candidate->step_ns = 0;
      return fits;
    }
    best_ = *candidate;
    return absl::OkStatus();
  }

  // Moves single layers over the best candidate's boundaries, the best move first, while one helps.
  void Refine() {
    KeepSchedule();
    for (bool improved = true; improved;) {
      improved = false;
      const Candidate start = *best_;
      for (size_t b = 0; b < start.cut.stages.size(); ++b) {
        for (size_t cut = 1; cut < start.cut.stages[b].size(); ++cut) {
          for (int move : {-1, 1}) improved |= ImprovesBy(start, b, cut, move);
        }
      }
    }
  }

  // Moving a layer need not change the order of the passes, and making one takes time.
  void KeepSchedule() {
    absl::StatusOr<Schedule> schedule = builder_.ScheduleOf(best_->shape, best_->cut);
    if (schedule.ok()) best_->cut.schedule = std::make_shared<const Schedule>(*std::move(schedule));
  }

  bool ImprovesBy(const Candidate& start, size_t backbone, size_t cut, int move) {
    Candidate moved = start;
    LayerRange& left = moved.cut.stages[backbone][cut - 1];
    LayerRange& right = moved.cut.stages[backbone][cut];
    left.end += move;
    right.begin += move;
    if (left.empty() || right.empty() || budget_ < Work(moved.shape)) return false;
    const Nanos before_ns = best_->step_ns;
    return Simulate(&moved).ok() && best_->step_ns < before_ns;
  }

  // Where weight gradients and frozen work compete for the same gaps, simulation says which goes
  // first.
  void OrderWeightGradients() {
    const Candidate start = *best_;
    absl::StatusOr<std::vector<Schedule>> orders = builder_.WeightOrdersOf(start.shape, start.cut);
    if (!orders.ok()) return;
    for (size_t i = 1; i < orders->size() && budget_ >= Work(start.shape); ++i) {
      Candidate ordered = start;
      ordered.cut.schedule = std::make_shared<const Schedule>((*orders)[i]);
      // One that fails is passed over: the plan without it is there.
      Simulate(&ordered).IgnoreError();
    }
  }

  absl::Status WhyNothing() const {
    return why_not_.ok() ? absl::InvalidArgumentError("no number of stages and micro-batches fits")
                         : why_not_;
  }

  static PlanCandidate Report(const Candidate& candidate, std::string outcome) {
    PlanCandidate report;
    report.schedule = candidate.shape.schedule;
    report.num_stages = candidate.shape.num_stages;
    report.num_micro_batches = candidate.shape.num_micro_batches;
    report.devices_per_pipeline = candidate.shape.devices_per_pipeline;
    if (!candidate.cut.stages.empty()) report.stages = candidate.cut.stages[0];
    report.recompute =
        std::count(candidate.cut.recompute.begin(), candidate.cut.recompute.end(), true) > 0;
    report.estimate_ns = candidate.estimate_ns;
    report.step_ns = candidate.step_ns;
    report.bubble_ratio = candidate.bubble_ratio;
    report.outcome = std::move(outcome);
    return report;
  }

  std::string WhyItLost(const Candidate& candidate) const {
    if (!candidate.outcome.empty()) return candidate.outcome;
    if (candidate.step_ns == best_->step_ns) return "its step is as long as the chosen one's";
    return absl::StrCat(
        "its step of ", FormatDuration(candidate.step_ns), " is ",
        absl::StrFormat("%.1f %%", 100.0 * candidate.step_ns / best_->step_ns - 100),
        " longer than the chosen one's");
  }

  absl::StatusOr<PlanResult> Result() {
    DPIPE_ASSIGN_OR_RETURN(PlanPair built, Build(*best_, Extent::kWhole));
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
      result.candidates.push_back(Report(candidate, WhyItLost(candidate)));
    }
    return result;
  }

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  PlanBuilder builder_;
  const double self_conditioning_;  // probability
  int64_t budget_;
  std::vector<Candidate> candidates_;
  absl::Status why_not_;
  std::optional<Candidate> best_;
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
