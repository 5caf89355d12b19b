#include "core/planner/search/build_plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/planner/cuts/balance_cut.h"
#include "core/planner/fill/fill_plan.h"
#include "core/planner/fill/weight_order.h"
#include "core/planner/pipeline/pipeline_schedule.h"
#include "core/planner/strategy.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/schedule_traits.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

// Fraction of a device's memory that orders of passes leave free for frozen work and messages.
constexpr double kSpareMemory = 0.03;
// A frozen component is heavy if its weights take at least this fraction of the smallest device
// memory.
constexpr double kHeavyShare = 0.05;

// Returns the minimum over all devices that have a limit; 0 if none has one.
int64_t MinMemoryLimit(const CostModel& cost) {
  int64_t least = 0;
  for (int r = 0; r < cost.num_devices(); ++r) {
    const int64_t limit = cost.MemoryLimitOf(r);
    if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
  }
  return least;
}

// True if buckets of gradients may be reduced after each micro-batch. Stages of a pipeline are
// reduced as a whole, so that would save nothing there.
bool MayAccumulateShards(const PipelineShape& shape) {
  return shape.sharding == Sharding::kZero3 && shape.num_stages == 1;
}

// Returns, by schedule device, whether one of its ranks exceeds its memory; empty if none does.
std::vector<bool> DevicesOverMemory(const Plan& plan, const PipelineCut& cut,
                                    const CostModel& cost) {
  const std::vector<DeviceSeat> seats = SeatsOf(cut);
  std::vector<bool> over(seats.size(), false);
  const PlanMemory memory(plan, cost);
  for (int r = 0; r < plan.devices_size(); ++r) {
    const int64_t limit = cost.MemoryLimitOf(r);
    const int in_group = r % plan.devices_per_pipeline();
    for (size_t d = 0; d < seats.size() && limit > 0; ++d) {
      const int place = in_group - seats[d].first_rank;
      if (place < 0 || place >= seats[d].replicas || over[d]) continue;
      over[d] = memory.OfRank(r).peak_bytes > limit;
    }
  }
  const bool any = std::count(over.begin(), over.end(), true) > 0;
  return any ? over : std::vector<bool>();
}

// Returns the micro-batches of one chain: those of a backbone divided by the number of its copies.
int ChainMicroBatches(const PipelineShape& shape) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  return shape.num_micro_batches / (traits.ok() ? traits->weight_copies : 1);
}

}  // namespace

PlanBuilder::PlanBuilder(const Strategy& strategy, const BuildOptions& options,
                         const CostModel& cost)
    : strategy_(strategy),
      options_(options),
      cost_(cost),
      fills_(strategy.frozen() == "fill" && strategy.cross_iteration() &&
             !cost.frozen_components().empty()),
      shared_(options.tables != nullptr ? options.tables : std::make_shared<PlanTables>(cost)),
      tables_(shared_->backbones()) {
  if (!cached()) {
    const int64_t limit = MinMemoryLimit(cost_);
    for (int c : cost_.frozen_components()) {
      const int64_t bytes = cost_.ParameterBytes(c, cost_.AllLayers(c));
      frozen_bytes_ += bytes;
      if (limit == 0 || static_cast<double>(bytes) < kHeavyShare * static_cast<double>(limit)) {
        continue;
      }
      heavy_components_.push_back(c);
      heavy_bytes_ += bytes;
    }
  }
}

Recompute PlanBuilder::recompute() const {
  if (strategy_.recompute() == "full") return Recompute::kFull;
  return strategy_.recompute() == "auto" ? Recompute::kAuto : Recompute::kNone;
}

LowerOptions PlanBuilder::Options(const PipelineShape& shape, const PipelineCut& cut,
                                  FrozenPolicy frozen, Extent extent) const {
  LowerOptions options;
  options.strategy = strategy_.name();
  options.fingerprints = extent == Extent::kWhole;
  options.frozen = frozen;
  options.sync = strategy_.sync() == "end" ? SyncPolicy::kEnd : SyncPolicy::kBucketed;
  options.global_norm = options_.global_norm;
  options.recv_lookahead = cut.recv_lookahead;
  if (strategy_.compress() != "none") options.compression = strategy_.compress();
  if (Relaxes(strategy_)) {
    options.global_norm = false;
    options.sync = SyncPolicy::kEnd;  // the last passes are not split for reductions
    Relaxation& relaxation = options.relaxation.emplace();
    relaxation.set_weights(strategy_.weights() == "stashed" ? Relaxation::STASHED
                                                            : Relaxation::PREDICTED);
    relaxation.set_micro_batches_per_update(std::max(1, strategy_.update_every()));
    relaxation.set_updates_per_sync(strategy_.sync_every());
  }
  if (shape.shards_state()) {
    options.shard = shape.num_stages == 1 ? ShardPolicy::kBuckets : ShardPolicy::kStages;
    if (shape.sharding == Sharding::kZero1) options.gather = GatherPolicy::kOnce;
    options.reduce_each_micro_batch = cut.accumulates_shards;
  }
  return options;
}

const CostModel& PlanBuilder::CostOf(const PipelineShape& shape, Extent extent) {
  const int devices = shape.devices_per_pipeline;
  if (extent == Extent::kWhole || devices == shape.num_devices ||
      !cost_.HasIdenticalGroups(devices)) {
    return cost_;
  }
  std::unique_ptr<CostModel>& group = groups_[devices];
  if (group == nullptr) group = std::make_unique<CostModel>(cost_.ForOneGroup(devices));
  return *group;
}

std::vector<int> PlanBuilder::FrozenHostCounts(const PipelineShape& shape) const {
  std::vector<int> numbers;
  if (!fills_ || heavy_components_.empty()) return numbers;
  for (int share : {2, 4}) {
    if (shape.num_stages % share == 0) numbers.push_back(shape.num_stages / share);
  }
  return numbers;
}

std::optional<double> PlanBuilder::MemoryShare(const PipelineShape& shape) {
  const std::string& partitioner = PartitionerOf(shape);
  const bool chooses_ranks =
      tables_.size() == 1 &&
      (partitioner == "dapple" || partitioner == "pipedream" || partitioner == "spp");
  return shared_->memory_bound().ShareOf(shape, {frozen_bytes_ - heavy_bytes_, heavy_bytes_},
                                         recompute() != Recompute::kNone, chooses_ranks,
                                         /*in_blocks=*/true);
}

StageCostsOptions PlanBuilder::CostsOptions(const PipelineShape& shape, int backbone) const {
  StageCostsOptions options;
  options.num_groups = shape.num_groups();
  options.devices_per_pipeline = shape.devices_per_pipeline;
  options.micro_batch_size = shape.micro_batch_size();
  options.backbone = backbone;
  options.shards_state = shape.shards_state();
  options.gathers_once = shape.sharding == Sharding::kZero1;
  options.accumulates_shards = MayAccumulateShards(shape);
  options.reduces_at_end = strategy_.sync() == "end";
  // Counted once, whatever the number of backbones.
  if (backbone == 0) {
    options.frozen_bytes = frozen_bytes_ - heavy_bytes_;
    options.hosted_bytes = heavy_bytes_;
    if (shape.frozen_hosts > 0) options.first_host = shape.num_stages - shape.frozen_hosts;
  }
  options.recomputes_blocks = recompute() != Recompute::kNone;
  options.forward_passes = 1 + cost_.profile().self_conditioning_probability();
  return options;
}

absl::StatusOr<Schedule> PlanBuilder::ScheduleOf(const PipelineShape& shape, const PipelineCut& cut,
                                                 bool self_conditioning) const {
  if (cut.schedule != nullptr && !self_conditioning) return *cut.schedule;
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<const Schedule> structure,
                         shared_->StructureOf(shape, self_conditioning));
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(shape.schedule));
  if (!traits.takes_costs && !self_conditioning) return *structure;
  PipelineScheduleOptions options;
  options.num_backbones = static_cast<int>(tables_.size());
  options.self_conditioning = self_conditioning;
  options.costs = StagePassCosts(*structure, cut, shape, cost_);
  return MakePipelineSchedule(shape, options);
}

absl::StatusOr<std::vector<Schedule>> PlanBuilder::WeightOrdersOf(const PipelineShape& shape,
                                                                  const PipelineCut& cut) const {
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape, cut));
  WeightOrderOptions options;
  options.costs = StagePassCosts(schedule, cut, shape, cost_);
  if (shape.peak_limit > 0) {
    options.device_limits.assign(schedule.num_devices(), shape.peak_limit);
  }
  return WeightOrders(schedule, options);
}

CutCosts PlanBuilder::CostsOf(const PipelineShape& shape, const PipelineCut& cut,
                              const Schedule& schedule) const {
  std::vector<StageCostsOptions> options;
  for (size_t b = 0; b < tables_.size(); ++b) {
    options.push_back(CostsOptions(shape, static_cast<int>(b)));
  }
  return CutCosts(cost_, tables_, options, shape, cut, schedule);
}

PipelineCut PlanBuilder::Balance(const PipelineShape& shape, const PipelineCut& cut,
                                 const Schedule& schedule, bool by_makespan, int max_judged) const {
  const CutCosts costs = CostsOf(shape, cut, schedule);
  CutBalance balance;
  balance.schedule = &schedule;
  balance.by_makespan = by_makespan;
  balance.max_judged = max_judged;
  balance.costs = [&costs](int b, LayerRange layers, int device) {
    return costs.Passes(b, layers, device);
  };
  balance.excess = [&costs](int device, const std::vector<std::vector<LayerRange>>& stages) {
    return std::max<int64_t>(0, -costs.FreeBytes(device, stages).value_or(0));
  };
  PipelineCut balanced = cut;
  balanced.stages = BalanceCut(balance, cut.stages);
  balanced.schedule = nullptr;
  return balanced;
}

std::vector<int> PlanBuilder::ExtraPairsThatFit(const PipelineShape& shape, const PipelineCut& cut,
                                                const Schedule& schedule) const {
  const CutCosts costs = CostsOf(shape, cut, schedule);
  std::vector<int64_t> all(schedule.num_devices(), 0);
  for (int s = 0; s < schedule.num_stages(); ++s) {
    all[schedule.DeviceOf(s)] += schedule.chains()[schedule.ChainOf(s)].num_micro_batches;
  }
  std::vector<int> room;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    int64_t pairs = all[d];
    if (const absl::optional<int64_t> bytes = costs.FreeBytes(d, cut.stages)) {
      pairs = std::max<int64_t>(0, *bytes) / costs.LargestPairBytes(d, cut.stages);
    }
    room.push_back(static_cast<int>(std::min(pairs, all[d])));
  }
  return room;
}

PassGraphCosts PlanBuilder::TimesOf(const PipelineShape& shape, const PipelineCut& cut,
                                    const Schedule& schedule, const CutCosts& costs) const {
  PassGraphCosts times;
  times.costs = StagePassCosts(schedule, cut, shape, cost_);
  times.forward_delay_ns = costs.ForwardDelays();
  times.gradient_delay_ns = costs.GradientDelays();
  times.ready_ns = costs.OptimizerTimes();
  times.stage_limits = costs.StageLimits(kSpareMemory);
  return times;
}

absl::StatusOr<BuiltPlan> PlanBuilder::Lower(const PipelineShape& shape, const PipelineCut& cut,
                                             const LowerOptions& options, Extent extent,
                                             bool self_conditioning) {
  const CostModel& cost = CostOf(shape, extent);
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape, cut, self_conditioning));
  DPIPE_ASSIGN_OR_RETURN(const PipelineLayout layout,
                         LayoutOf(schedule, cut, shape, cost.num_devices()));
  BuiltPlan built;
  DPIPE_ASSIGN_OR_RETURN(built.plan, LowerPlan(layout, schedule, options, cost));
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, SimulateSteadyState(built.plan, cost));
  built.step_ns = simulation.stats.step_ns;
  built.bubble_ratio = simulation.stats.bubble_ratio;
  return built;
}

absl::StatusOr<BuiltPlan> PlanBuilder::BuildFilled(const PipelineShape& shape,
                                                   const PipelineCut& cut, Extent extent,
                                                   bool self_conditioning, Nanos step_limit_ns) {
  const CostModel& cost = CostOf(shape, extent);
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape, cut, self_conditioning));
  DPIPE_ASSIGN_OR_RETURN(const PipelineLayout layout,
                         LayoutOf(schedule, cut, shape, cost.num_devices()));
  FillOptions fill;
  fill.exact = options_.exact && extent == Extent::kWhole;
  fill.partial_batch = strategy_.partial_batch();
  fill.even_samples = strategy_.even_samples();
  fill.beam_width = strategy_.fill_walks();
  fill.one_partial = strategy_.one_partial();
  fill.min_bubble_ns = strategy_.min_bubble_us() * kNanosPerMicro;
  fill.published = strategy_.fill_rule() == "published";
  fill.local_batches = LocalBatches(strategy_);
  if (shape.frozen_hosts > 0) {
    fill.heavy_components = heavy_components_;
    fill.hosts.assign(shape.devices_per_pipeline, false);
    const std::vector<DeviceSeat> seats = SeatsOf(cut);
    for (int d = 0; d < static_cast<int>(seats.size()); ++d) {
      for (int i = 0; i < seats[d].replicas && shape.IsFrozenHost(d); ++i) {
        fill.hosts[seats[d].first_rank + i] = true;
      }
    }
  }
  DPIPE_ASSIGN_OR_RETURN(
      FilledPlan filled,
      FillPlan(layout, schedule, Options(shape, cut, FrozenPolicy::kFill, extent), fill, cost,
               step_limit_ns));
  BuiltPlan built;
  built.exceeded_limit = filled.plan.devices_size() == 0;
  built.plan = std::move(filled.plan);
  built.step_ns = filled.step_ns;
  built.bubble_ratio = filled.bubble_ratio;
  built.unfilled_bubble_ratio = filled.unfilled_bubble_ratio;
  built.finish_ns = std::move(filled.finish_ns);
  return built;
}

// What saves memory and costs time is done only if a device would exceed its memory: reducing
// gradients after each micro-batch, and restoring blocks of layers. (A whole stage can be restored
// in a gap before its gradient arrives.)
absl::StatusOr<BuiltPlan> PlanBuilder::Build(const PipelineShape& shape, const PipelineCut& cut,
                                             Extent extent, bool self_conditioning,
                                             Nanos step_limit_ns) {
  PipelineCut smaller = cut;
  const auto build = [&] {
    return BuildCut(shape, smaller, extent, self_conditioning, step_limit_ns);
  };
  absl::StatusOr<BuiltPlan> built = build();
  const bool accumulates = MayAccumulateShards(shape) && shape.num_micro_batches > 1;
  const bool recomputes = std::count(cut.recompute.begin(), cut.recompute.end(), true) > 0;
  if (!built.ok() || built->exceeded_limit || !(accumulates || recomputes)) return built;
  const CostModel& cost = CostOf(shape, extent);
  std::vector<bool> over = DevicesOverMemory(built->plan, cut, cost);
  if (!over.empty() && accumulates) {
    smaller.accumulates_shards = true;
    built = build();
    if (!built.ok() || built->exceeded_limit) return built;
    over = DevicesOverMemory(built->plan, cut, cost);
  }
  if (over.empty() || !recomputes) return built;
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOf(shape, cut, self_conditioning));
  DivideIntoBlocks(schedule, over, cost_, &smaller);
  return build();
}

absl::StatusOr<BuiltPlan> PlanBuilder::BuildCut(const PipelineShape& shape, const PipelineCut& cut,
                                                Extent extent, bool self_conditioning,
                                                Nanos step_limit_ns) {
  if (fills_) return BuildFilled(shape, cut, extent, self_conditioning, step_limit_ns);
  if (cached())
    return Lower(shape, cut, Options(shape, cut, FrozenPolicy::kCached, extent), extent,
                 self_conditioning);
  return BuildFrozenFirst(shape, cut, extent, self_conditioning);
}

absl::StatusOr<BuiltPlan> PlanBuilder::BuildFrozenFirst(const PipelineShape& shape,
                                                        const PipelineCut& cut, Extent extent,
                                                        bool self_conditioning) {
  const bool one_stage = strategy_.frozen() == "first_stage";
  LowerOptions options =
      Options(shape, cut, one_stage ? FrozenPolicy::kFirstStage : FrozenPolicy::kFirst, extent);
  DPIPE_ASSIGN_OR_RETURN(BuiltPlan whole, Lower(shape, cut, options, extent, self_conditioning));
  const CostModel& cost = CostOf(shape, extent);
  if (!FrozenWorkExceedsMemory(whole.plan, cost)) return whole;
  const int quantum = cost.frozen_quantum();
  absl::StatusOr<BuiltPlan> pieces;
  for (int batch = LargestFrozenBatch(whole.plan) / 2; batch > quantum / 2; batch /= 2) {
    options.max_frozen_batch = std::max(batch, quantum);
    pieces = Lower(shape, cut, options, extent, self_conditioning);
    if (!pieces.ok()) return whole;
    // Smaller pieces do not help if something else exceeds the memory, too.
    if (!FrozenWorkExceedsMemory(pieces->plan, cost)) return pieces;
  }
  return whole;
}

Nanos PlanBuilder::LowerBound(const PipelineShape& shape, const PipelineCut& cut) const {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  // If so, weight gradients may run while the way out is under way. An order found by search may do
  // this for any schedule.
  const bool splits = !traits.ok() || traits->splits_backward || cut.schedule != nullptr;
  const bool start_together = options_.global_norm && !Relaxes(strategy_);
  Nanos bound = 0;
  for (size_t b = 0; b < cut.stages.size(); ++b) {
    const int component = cost_.backbones()[b];
    // The maximum number of ranks that share a micro-batch gives the shortest passes. Of unlike
    // devices, assume the fastest.
    const int replicas = *std::max_element(cut.replicas.begin(), cut.replicas.end());
    const int shards = shape.shards_state() ? replicas * shape.num_groups() : 1;
    const Nanos optimizer = cost_.OptimizerShare(component, cut.stages[b][0], shards);
    const LayerTimes& times =
        cost_.Times(component, std::max(1, shape.micro_batch_size() / replicas));
    double speed = 1;
    for (int r = 0; r < cost_.num_devices(); ++r) speed = std::max(speed, cost_.SpeedOf(r));
    for (const LayerRange& layers : cut.stages[b]) {
      // In and out for one micro-batch: its forward passes and its input gradients. Nothing waits
      // for its weight gradients.
      const LayerRange before{0, layers.begin};
      const Nanos in = optimizer + times.Forward(before), out = times.InputGrad(before);
      const Nanos all = ChainMicroBatches(shape) * times.Total(layers);
      const Nanos weights = ChainMicroBatches(shape) * times.WeightGrad(layers);
      Nanos path = in + all + out;
      if (splits) path = std::max((start_together ? in : 0) + all, path - weights);
      bound = std::max(bound, static_cast<Nanos>(static_cast<double>(path) / speed));
    }
  }
  return bound;
}

}  // namespace dpipe
