// One shape and one cut, made into a plan and simulated.                   [algorithms.md §2, §4]
//
// Where pipeline groups lie alike on the cluster, one of them is lowered and simulated for all
// (CostModel::OfOneGroup): they exchange nothing but reductions, which cost what they cost over
// every group. (Where a reduction and a message reach a network interface at one moment, the two
// simulations may let another one go first.) The plan that is finally handed out is lowered whole.
#ifndef DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_
#define DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/cut_costs.h"
#include "core/planner/costs/memory_bound.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/partition/partition.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

struct BuiltPlan {
  Plan plan;  // not verified
  Nanos step_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // 0 where nothing is filled
  std::vector<Nanos> finish_ns;      // FilledPlan.finish_ns; empty where nothing is filled
  bool gave_up = false;              // there is no plan; a filled one takes at least step_ns
};

struct BuildOptions {
  bool global_norm = true;
  bool exact = false;  // fill whole plans optimally (fill/exact.h)
};

// Turns shapes and cuts of one model and cluster into plans, as one strategy says; of the schedule,
// the sharding and the partitioner, which a strategy may leave open, as the shape does. Not
// thread-safe.
class PlanBuilder {
 public:
  // What is lowered: one group for all where that is the same, or every device.
  enum class Extent { kOneGroup, kWhole };

  // `strategy` passes CheckStrategy; `cost` must outlive this.
  PlanBuilder(const Strategy& strategy, const BuildOptions& options, const CostModel& cost);

  // Whether this strategy's plans have frozen work in their bubbles. Without cross-iteration
  // nothing can be: this step's frozen work is needed by the pipeline's first forward pass, which
  // no bubble of its step precedes, so such a plan runs it first.
  bool fills() const { return fills_; }
  bool cached() const { return strategy_.frozen() == "cached"; }

  // The numbers of frozen hosts (PipelineShape) worth a look beside all: none where no frozen
  // component's weights take much of a device's memory.
  std::vector<int> FrozenHostsOf(const PipelineShape& shape) const;
  // What any cut of the shape needs at least, over the memory of the largest device
  // (memory_bound.h); nothing if the schedule refuses the shape's peak_limit.
  std::optional<double> MemoryShare(const PipelineShape& shape);
  absl::StatusOr<PipelineCut> Cut(const PipelineShape& shape);
  // The order of the passes that a plan of this cut has.
  absl::StatusOr<Schedule> ScheduleOf(const PipelineShape& shape, const PipelineCut& cut,
                                      bool self_conditioning = false) const;
  // That and the same with weight gradients elsewhere (fill/weight_order.h), if it splits them off.
  absl::StatusOr<std::vector<Schedule>> WeightOrdersOf(const PipelineShape& shape,
                                                       const PipelineCut& cut) const;
  // Cuts of all backbones moved together under that order (balance_cut.h), at most `max_judged` of
  // them judged; the result has no order of its own.
  PipelineCut Balance(const PipelineShape& shape, const PipelineCut& cut, const Schedule& schedule,
                      bool by_makespan, int max_judged) const;
  // By schedule device: how many (stage, micro-batch) pairs more than under that order fit in its
  // memory, about; no less than do. All micro-batches' where there is no limit.
  std::vector<int> RoomFor(const PipelineShape& shape, const PipelineCut& cut,
                           const Schedule& schedule) const;
  // What the passes and messages take, and the memory that there is, by stage.
  PassGraphCosts TimesOf(const PipelineShape& shape, const PipelineCut& cut,
                         const Schedule& schedule) const {
    return TimesOf(shape, cut, schedule, CostsOf(shape, cut, schedule));
  }
  // The same by `costs`, CostsOf of these.
  PassGraphCosts TimesOf(const PipelineShape& shape, const PipelineCut& cut,
                         const Schedule& schedule, const CutCosts& costs) const;
  // What such stages cost under that order. All three outlive it.
  CutCosts CostsOf(const PipelineShape& shape, const PipelineCut& cut,
                   const Schedule& schedule) const;
  // With self_conditioning, of a step that runs the backbone twice. What takes longer than
  // `give_up_ns` (0: no limit) even without its frozen work is not filled.
  absl::StatusOr<BuiltPlan> Build(const PipelineShape& shape, const PipelineCut& cut,
                                  Extent extent = Extent::kOneGroup, bool self_conditioning = false,
                                  Nanos give_up_ns = 0);
  // The same with the frozen work before the pipeline.
  absl::StatusOr<BuiltPlan> BuildFrozenFirst(const PipelineShape& shape, const PipelineCut& cut,
                                             Extent extent = Extent::kOneGroup,
                                             bool self_conditioning = false);

  // What a step cannot be shorter than: the largest, over stages, of an optimizer step, one
  // micro-batch's way into the stage and out of it, and all passes there; links left out. Where
  // weight gradients are passes of their own, the way out does not wait for them, nor, without a
  // global norm, does the next step's way in: then the larger of what is left without them and
  // without the ways (lower_bound.h has the proof).
  Nanos LowerBound(const PipelineShape& shape, const PipelineCut& cut) const;
  // The cost model that plans of `extent` are lowered with.
  const CostModel& CostOf(const PipelineShape& shape, Extent extent);

 private:
  StageCostsOptions CostsOptions(const PipelineShape& shape, int backbone) const;
  // Instead of the partitioner's cut of the only backbone, the one of the shortest step.
  absl::StatusOr<PipelineCut> ShortestOf(const PipelineShape& shape, const Schedule& schedule,
                                         const ScheduleTraits& traits,
                                         const PartitionProblem& problem,
                                         const ModelStageCosts& costs, const Partition& partition);
  // Whether that takes a millisecond or two.
  bool IsQuicklyBuilt(const PipelineShape& shape) const;
  // Of two backbones in opposite directions.
  absl::StatusOr<PipelineCut> CutPair(const PipelineShape& shape, const Schedule& schedule) const;
  absl::StatusOr<BuiltPlan> Lower(const PipelineShape& shape, const PipelineCut& cut,
                                  const LowerOptions& options, Extent extent,
                                  bool self_conditioning);
  absl::StatusOr<BuiltPlan> BuildFilled(const PipelineShape& shape, const PipelineCut& cut,
                                        Extent extent, bool self_conditioning, Nanos give_up_ns);
  LowerOptions Options(const PipelineShape& shape, const PipelineCut& cut,
                       FrozenPolicy frozen) const;

  const std::string& PartitionerOf(const PipelineShape& shape) const {
    return shape.partitioner.empty() ? strategy_.partitioner() : shape.partitioner;
  }

  const Strategy strategy_;
  const BuildOptions options_;
  const CostModel& cost_;
  const bool fills_;
  MemoryBound memory_bound_;
  int64_t frozen_bytes_ = 0;           // weights of a device that runs every frozen component
  std::vector<int> heavy_components_;  // frozen ones that not every device need run
  int64_t heavy_bytes_ = 0;            // of frozen_bytes_
  std::vector<std::shared_ptr<const BackboneTables>> tables_;  // by backbone
  std::map<int, std::unique_ptr<CostModel>> groups_;           // by D
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_
