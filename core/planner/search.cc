#include "core/planner/search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/planner/build_plan.h"
#include "core/planner/shape.h"
#include "core/planner/strategy.h"
#include "core/schedule/memory.h"
#include "core/schedule/verify.h"
#include "core/sim/annotate.h"

namespace dpipe {
namespace {

// A shape with its partition, on its way through the search.
struct Candidate {
  PipelineShape shape;
  Partition partition;
  Nanos estimate_ns = 0;
  Nanos bound_ns = 0;
  Nanos step_ns = 0;  // 0: not simulated
  double bubble_ratio = 0;
  std::string outcome;
};

auto Order(const PipelineShape& shape) {
  return std::make_tuple(shape.num_stages, shape.num_micro_batches, shape.devices_per_pipeline);
}

class Search {
 public:
  Search(const Strategy& strategy, const CostModel& cost, const PlanOptions& options)
      : strategy_(strategy),
        cost_(cost),
        options_(options),
        builder_(strategy, options.global_norm, cost),
        budget_(options.simulation_budget) {}

  absl::StatusOr<PlanResult> Run() {
    DPIPE_RETURN_IF_ERROR(CheckRequest());
    DPIPE_RETURN_IF_ERROR(MakeCandidates());
    for (Candidate& candidate : candidates_) Try(candidate);
    if (!best_) return WhyNothing();
    if (options_.refine && strategy_.partitioner() == "balanced") Refine();
    if (builder_.fills()) ConsiderFrozenFirst();
    return Result();
  }

 private:
  absl::Status CheckRequest() const {
    if (options_.global_batch < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the global batch must be at least 1 sample; got ", options_.global_batch));
    }
    const std::pair<const char*, int> counts[] = {
        {"num_stages", options_.num_stages},
        {"num_micro_batches", options_.num_micro_batches},
        {"micro_batch_size", options_.micro_batch_size},
        {"devices_per_pipeline", options_.devices_per_pipeline}};
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
    const bool cuts = !builder_.cached() && !cost_.frozen_components().empty();
    request.frozen_quantum = cuts ? cost_.frozen_quantum() : 1;
    return request;
  }

  // Every shape with a partition, the most promising first.
  absl::Status MakeCandidates() {
    for (const std::string& schedule : ScheduleAlternatives(strategy_)) {
      absl::Status why;
      for (PipelineShape& shape : EnumerateShapes(Request(schedule), &why)) {
        Candidate candidate;
        candidate.shape = shape;
        absl::StatusOr<Partition> partition = builder_.MakePartition(shape);
        if (partition.ok()) {
          candidate.partition = *std::move(partition);
          candidate.estimate_ns = builder_.Estimate(shape, candidate.partition);
          candidate.bound_ns = builder_.LowerBound(shape, candidate.partition);
          candidates_.push_back(std::move(candidate));
        } else {
          Reject(candidate, partition.status());
          without_partition_.push_back(std::move(candidate));
        }
      }
      if (why_not_.ok()) why_not_ = why;
    }
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.estimate_ns < b.estimate_ns; });
    return absl::OkStatus();
  }

  void Reject(Candidate& candidate, const absl::Status& status) {
    candidate.outcome = absl::StrCat("no plan: ", status.message());
    // Lack of memory says more than a number that does not divide.
    if (why_not_.ok() || why_not_.code() != absl::StatusCode::kResourceExhausted) {
      why_not_ = status;
    }
  }

  // A deterministic stand-in for the time that lowering and simulating takes.
  int64_t Work(const PipelineShape& shape) const {
    const int64_t instructions =
        int64_t{6} * shape.num_devices * shape.num_micro_batches + 20 * shape.num_devices;
    return builder_.fills() ? 2 * instructions : instructions;
  }

  bool Better(const Candidate& a, const Candidate& b) const {
    return std::make_tuple(a.step_ns, Order(a.shape)) < std::make_tuple(b.step_ns, Order(b.shape));
  }

  void Try(Candidate& candidate) {
    if (best_ && candidate.bound_ns > best_->step_ns) {
      candidate.outcome = absl::StrCat("not simulated: no step of it is shorter than ",
                                       FormatDuration(candidate.bound_ns));
      return;
    }
    if (best_ && budget_ < Work(candidate.shape)) {
      candidate.outcome =
          absl::StrCat("not simulated: its estimated step of ",
                       FormatDuration(candidate.estimate_ns), " ranks behind those that were");
      return;
    }
    const absl::Status status = Simulate(candidate);
    if (!status.ok()) Reject(candidate, status);
  }

  // Builds the candidate's plan and keeps it if it is the best so far.
  absl::Status Simulate(Candidate& candidate) {
    budget_ -= Work(candidate.shape);
    DPIPE_ASSIGN_OR_RETURN(BuiltPlan built,
                           builder_.Build(candidate.shape, candidate.partition.stages));
    Candidate tried = candidate;
    tried.step_ns = built.step_ns;
    tried.bubble_ratio = built.bubble_ratio;
    if (best_ && !Better(tried, *best_)) {
      candidate = tried;
      return absl::OkStatus();
    }
    // What is verified in the end; only memory depends on the choice.
    DPIPE_RETURN_IF_ERROR(CheckMemory(built.plan, cost_));
    candidate = tried;
    best_ = std::move(tried);
    built_ = std::move(built);
    return absl::OkStatus();
  }

  // Moves single layers over the best candidate's boundaries, the best move first, while one helps.
  void Refine() {
    bool improved = true;
    while (improved) {
      improved = false;
      const Candidate start = *best_;
      for (int b = 1; b < start.shape.num_stages; ++b) {
        for (int move : {-1, 1}) {
          Candidate moved = start;
          LayerRange& left = moved.partition.stages[b - 1];
          LayerRange& right = moved.partition.stages[b];
          left.end += move;
          right.begin += move;
          if (left.empty() || right.empty() || budget_ < Work(moved.shape)) continue;
          const Nanos before_ns = best_->step_ns;
          if (Simulate(moved).ok() && best_->step_ns < before_ns) improved = true;
        }
      }
    }
  }

  // Filling is never worse than running the same frozen work first: where it is, it is not done.
  void ConsiderFrozenFirst() {
    absl::StatusOr<BuiltPlan> first =
        builder_.BuildFrozenFirst(best_->shape, best_->partition.stages);
    if (!first.ok() || first->step_ns >= best_->step_ns) return;
    if (!CheckMemory(first->plan, cost_).ok()) return;
    best_->step_ns = first->step_ns;
    best_->bubble_ratio = first->bubble_ratio;
    built_ = *std::move(first);
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
    report.stages = candidate.partition.stages;
    report.step_ns = candidate.step_ns;
    report.bubble_ratio = candidate.bubble_ratio;
    report.outcome = std::move(outcome);
    return report;
  }

  std::string WhyItLost(const Candidate& candidate) const {
    if (!candidate.outcome.empty()) return candidate.outcome;
    return absl::StrCat(
        "its step of ", FormatDuration(candidate.step_ns), " is ",
        absl::StrFormat("%.1f %%", 100.0 * candidate.step_ns / best_->step_ns - 100),
        " longer than the chosen one's");
  }

  absl::StatusOr<PlanResult> Result() {
    PlanResult result;
    result.plan = std::move(built_.plan);
    DPIPE_RETURN_IF_ERROR(AnnotatePrediction(&result.plan, cost_, built_.unfilled_bubble_ratio));
    result.num_considered = static_cast<int>(candidates_.size() + without_partition_.size());
    // Simulated ones by step, then the others in the order of their estimates.
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [this](const Candidate& a, const Candidate& b) {
                       if ((a.step_ns > 0) != (b.step_ns > 0)) return a.step_ns > 0;
                       return a.step_ns > 0 && Better(a, b);
                     });
    result.candidates.push_back(Report(*best_, "chosen"));
    candidates_.insert(candidates_.end(), without_partition_.begin(), without_partition_.end());
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int>(result.candidates.size()) >= options_.num_candidates) break;
      const bool chosen = candidate.shape.schedule == best_->shape.schedule &&
                          Order(candidate.shape) == Order(best_->shape);
      if (!chosen) result.candidates.push_back(Report(candidate, WhyItLost(candidate)));
    }
    return result;
  }

  const Strategy& strategy_;
  const CostModel& cost_;
  const PlanOptions& options_;
  const PlanBuilder builder_;
  int64_t budget_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> without_partition_;
  absl::Status why_not_;
  std::optional<Candidate> best_;
  BuiltPlan built_;  // of best_
};

}  // namespace

absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckStrategy(strategy));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  return Search(strategy, cost, options).Run();
}

}  // namespace dpipe
