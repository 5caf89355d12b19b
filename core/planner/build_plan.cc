#include "core/planner/build_plan.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/planner/fill/fill_plan.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/stage_costs.h"
#include "core/schedule/generators.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

PipelineLayout Layout(const PipelineShape& shape, const std::vector<LayerRange>& stages) {
  std::vector<StraightStage> straight;
  for (const LayerRange& layers : stages) straight.push_back({layers, shape.replicas()});
  return StraightLayout(shape.num_devices, shape.num_micro_batches, shape.micro_batch_size(),
                        straight);
}

absl::StatusOr<Schedule> ScheduleOf(const PipelineShape& shape) {
  ScheduleRequest request;
  request.num_devices = shape.num_stages;
  request.num_micro_batches = shape.num_micro_batches;
  return MakeSchedule(shape.schedule, request);
}

}  // namespace

PlanBuilder::PlanBuilder(const Strategy& strategy, bool global_norm, const CostModel& cost)
    : strategy_(strategy),
      global_norm_(global_norm),
      cost_(cost),
      fills_(strategy.frozen() == "fill" && strategy.cross_iteration() &&
             !cost.frozen_components().empty()) {}

LowerOptions PlanBuilder::Options(FrozenPolicy frozen) const {
  LowerOptions options;
  options.strategy = strategy_.name();
  options.frozen = frozen;
  options.sync = strategy_.sync() == "end" ? SyncPolicy::kEnd : SyncPolicy::kBucketed;
  options.global_norm = global_norm_;
  return options;
}

absl::StatusOr<Partition> PlanBuilder::MakePartition(const PipelineShape& shape) const {
  DPIPE_ASSIGN_OR_RETURN(const Partitioner partitioner, FindPartitioner(strategy_.partitioner()));
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape));
  int64_t frozen_bytes = 0;
  if (!cached()) {
    for (int c : cost_.frozen_components()) {
      frozen_bytes += cost_.ParameterBytes(c, cost_.AllLayers(c));
    }
  }
  const ModelStageCosts costs(cost_, shape, schedule, frozen_bytes);
  const std::vector<int> replicas(shape.num_stages, shape.replicas());
  return partitioner(MakePartitionProblem(costs, schedule, 0, replicas));
}

absl::StatusOr<BuiltPlan> PlanBuilder::Lower(const PipelineShape& shape,
                                             const std::vector<LayerRange>& stages,
                                             LowerOptions options) const {
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape));
  BuiltPlan built;
  DPIPE_ASSIGN_OR_RETURN(built.plan, LowerPlan(Layout(shape, stages), schedule, options, cost_));
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, SimulateSteadyState(built.plan, cost_));
  built.step_ns = simulation.stats.step_ns;
  built.bubble_ratio = simulation.stats.bubble_ratio;
  return built;
}

absl::StatusOr<BuiltPlan> PlanBuilder::BuildFilled(const PipelineShape& shape,
                                                   const std::vector<LayerRange>& stages) const {
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape));
  FillOptions fill;
  fill.partial_batch = strategy_.partial_batch();
  DPIPE_ASSIGN_OR_RETURN(FilledPlan filled, FillPlan(Layout(shape, stages), schedule,
                                                     Options(FrozenPolicy::kFill), fill, cost_));
  BuiltPlan built;
  built.plan = std::move(filled.plan);
  built.step_ns = filled.step_ns;
  built.bubble_ratio = filled.bubble_ratio;
  built.unfilled_bubble_ratio = filled.unfilled_bubble_ratio;
  return built;
}

absl::StatusOr<BuiltPlan> PlanBuilder::Build(const PipelineShape& shape,
                                             const std::vector<LayerRange>& stages) const {
  if (fills_) return BuildFilled(shape, stages);
  if (cached()) return Lower(shape, stages, Options(FrozenPolicy::kCached));
  return BuildFrozenFirst(shape, stages);
}

absl::StatusOr<BuiltPlan> PlanBuilder::BuildFrozenFirst(
    const PipelineShape& shape, const std::vector<LayerRange>& stages) const {
  return Lower(shape, stages, Options(FrozenPolicy::kFirst));
}

Nanos PlanBuilder::FrozenTime(int samples) const {
  Nanos sum = 0;
  for (int c : cost_.frozen_components()) {
    sum += cost_.Load(c, samples) + cost_.Forward(c, cost_.AllLayers(c), samples);
  }
  return sum;
}

Nanos PlanBuilder::Estimate(const PipelineShape& shape, const Partition& partition) const {
  const LayerTimes& times = cost_.Times(cost_.backbone(), shape.local_batch());
  Nanos pipeline = (shape.num_micro_batches - 1) * partition.bottleneck_ns;
  Nanos optimizer = 0;
  Nanos busy = 0;  // of all stages
  for (const LayerRange& layers : partition.stages) {
    pipeline += times.Total(layers);
    optimizer = std::max(optimizer, cost_.Optimizer(layers));
    busy += shape.num_micro_batches * times.Total(layers) + cost_.Optimizer(layers);
  }
  const Nanos backbone = pipeline + partition.exposed_sync_ns + optimizer;
  if (cached()) return backbone;
  const int share = std::max(1, shape.samples_per_group() / shape.devices_per_pipeline);
  const Nanos frozen = FrozenTime(share);
  // Filled, a step takes its backbone's time or that of all work evenly shared.
  return fills_ ? std::max(backbone, busy / shape.num_stages + frozen) : backbone + frozen;
}

Nanos PlanBuilder::LowerBound(const PipelineShape& shape, const Partition& partition) const {
  const LayerTimes& times = cost_.Times(cost_.backbone(), shape.local_batch());
  const Nanos optimizer = cost_.Optimizer(partition.stages[0]);
  Nanos bound = 0;
  for (const LayerRange& layers : partition.stages) {
    // In and out for one micro-batch: forward, and input gradients, which alone must be waited for.
    const LayerRange before{0, layers.begin};
    bound = std::max(bound, optimizer + times.Forward(before) + times.InputGrad(before) +
                                shape.num_micro_batches * times.Total(layers));
  }
  return bound;
}

}  // namespace dpipe
