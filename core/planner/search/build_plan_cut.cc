// How a plan builder cuts backbones into stages.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/planner/cuts/cut_choice.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/partition/solvers/pair.h"
#include "core/planner/search/build_plan.h"
#include "core/planner/strategy.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

// Maximum number of cuts judged to even out the devices' work for several backbones.
constexpr int kMaxJudged = 2000;

// Two cuts of a small pipeline are compared by simulation, since whole samples of frozen work and
// contention weigh more there. A pipeline is small up to this many devices times micro-batches and,
// if frozen work fills gaps, this product of those, the layers of frozen work and the square of the
// units per device. For larger pipelines, a cut must beat the even one by this factor in the
// estimated step.
constexpr int64_t kMaxPasses = 600;
constexpr int64_t kMaxPacked = 20'000;
constexpr double kMinGain = 1.01;

}  // namespace

absl::StatusOr<PipelineCut> PlanBuilder::Cut(const PipelineShape& shape) {
  DPIPE_ASSIGN_OR_RETURN(const Partitioner partitioner, FindPartitioner(PartitionerOf(shape)));
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<const Schedule> structure,
                         shared_->StructureOf(shape, /*self_conditioning=*/false));
  const Schedule& schedule = *structure;
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(shape.schedule));
  // Each device has one stage of each backbone.
  if (traits.num_backbones == 2 && traits.stages_per_device == 2) return CutPair(shape, schedule);
  std::vector<Partition> partitions;
  for (size_t b = 0; b < tables_.size(); ++b) {
    const ModelStageCosts costs(cost_, tables_[b], schedule,
                                CostsOptions(shape, static_cast<int>(b)));
    PartitionProblem problem = MakePartitionProblem(
        costs, schedule, static_cast<int>(b), std::vector<int>(shape.num_stages, shape.replicas()));
    // All backbones use the same division of the devices.
    problem.choose_replicas = tables_.size() == 1;
    problem.recompute = recompute();
    DPIPE_ASSIGN_OR_RETURN(Partition partition, partitioner(problem));
    if (tables_.size() == 1 && PartitionerOf(shape) == "balanced") {
      return ShortestOf(shape, schedule, traits, problem, costs, partition);
    }
    partitions.push_back(std::move(partition));
  }
  DPIPE_ASSIGN_OR_RETURN(PipelineCut cut, JoinPartitions(partitions));
  if (tables_.size() == 1 || !strategy_.tune()) return cut;
  // Cutting each backbone alone leaves some devices with more work than others.
  return Balance(shape, cut, schedule, /*by_makespan=*/false, kMaxJudged);
}

absl::StatusOr<PipelineCut> PlanBuilder::CutPair(const PipelineShape& shape,
                                                 const Schedule& schedule) const {
  const ModelStageCosts down(cost_, tables_[0], schedule, CostsOptions(shape, 0));
  const ModelStageCosts up(cost_, tables_[1], schedule, CostsOptions(shape, 1));
  PairProblem problem;
  problem.down = &down;
  problem.up = &up;
  problem.num_down_micro_batches = problem.num_up_micro_batches = shape.num_micro_batches;
  problem.replicas.assign(shape.num_stages, shape.replicas());
  problem.recompute = strategy_.recompute() == "full";
  absl::StatusOr<PairPartition> pair = PartitionPair(problem);
  if (absl::IsResourceExhausted(pair.status()) && strategy_.recompute() == "auto") {
    problem.recompute = true;
    pair = PartitionPair(problem);
  }
  DPIPE_RETURN_IF_ERROR(pair.status());
  std::vector<Partition> partitions(2);
  partitions[0].stages = pair->down;
  partitions[1].stages = pair->up;
  for (Partition& partition : partitions) partition.seats = pair->seats;
  partitions[0].bottleneck_ns = pair->largest_load_ns / shape.num_micro_batches;
  return JoinPartitions(partitions);
}

absl::StatusOr<PipelineCut> PlanBuilder::ShortestOf(
    const PipelineShape& shape, const Schedule& schedule, const ScheduleTraits& traits,
    const PartitionProblem& problem, const ModelStageCosts& costs, const Partition& partition) {
  const int component = cost_.backbones()[0];
  CutChoice choice;
  choice.problem = &problem;
  choice.schedule = &schedule;
  choice.passes = [&](LayerRange layers, const DeviceSeat& seat) {
    return PassCostsOf(cost_, component, layers, seat, shape.micro_batch_size());
  };
  choice.optimizer_ns = [&](LayerRange layers, const DeviceSeat& seat) {
    return cost_.OnRank(cost_.OptimizerShare(component, layers, costs.StateShards(seat)),
                        seat.first_rank);
  };
  if (traits.takes_costs) {
    choice.order_of = [&](const Partition& cut) -> absl::StatusOr<Schedule> {
      DPIPE_ASSIGN_OR_RETURN(const PipelineCut joined, JoinPartitions({cut}));
      return ScheduleOf(shape, joined);
    };
  }
  const std::vector<JudgedCut> cuts = ChooseCut(choice, partition);
  std::vector<PipelineCut> joined;
  for (const JudgedCut& judged : cuts) {
    DPIPE_ASSIGN_OR_RETURN(PipelineCut cut, JoinPartitions({judged.cut}));
    // Making the order again takes time. (For joint backward passes, the bound depends on whether
    // the cut has an order.)
    if (judged.order && traits.splits_backward) {
      cut.schedule = std::make_shared<const Schedule>(*judged.order);
    }
    joined.push_back(std::move(cut));
  }
  const PipelineCut& best = joined[0];
  if (cuts.size() == 1) return best;
  const PipelineCut& even = joined[1];
  const double gain = static_cast<double>(cuts[1].step_ns) / static_cast<double>(cuts[0].step_ns);
  if (!IsQuicklyBuilt(shape)) return gain < kMinGain ? even : best;
  // Partitions do not count all of the memory.
  const auto fits = [&](const absl::StatusOr<BuiltPlan>& built) {
    return built.ok() && !built->exceeded_limit &&
           CheckMemory(built->plan, CostOf(shape, Extent::kOneGroup)).ok();
  };
  const absl::StatusOr<BuiltPlan> built = Build(shape, best);
  const bool best_fits = fits(built);
  const absl::StatusOr<BuiltPlan> built_even =
      Build(shape, even, Extent::kOneGroup, /*self_conditioning=*/false,
            /*step_limit_ns=*/best_fits ? built->step_ns : 0);
  if (!fits(built_even)) return best;
  return !best_fits || built_even->step_ns < built->step_ns ? even : best;
}

bool PlanBuilder::IsQuicklyBuilt(const PipelineShape& shape) const {
  const int64_t passes = int64_t{shape.devices_per_pipeline} * shape.num_micro_batches;
  if (passes > kMaxPasses || !fills_) return passes <= kMaxPasses;
  const int64_t units =
      shape.samples_per_group() / std::max(1, cost_.frozen_quantum() * shape.devices_per_pipeline);
  int64_t layers = 0;
  for (int component : cost_.frozen_components()) layers += cost_.num_layers(component);
  return passes * units * units * layers <= kMaxPacked;
}

}  // namespace dpipe
