// Builds and simulates the plan of one shape and one cut. [algorithms.md §2, §4]
//
// If all pipeline groups have the same layout on the cluster, one of them is lowered and simulated
// for all (CostModel::ForOneGroup). Groups exchange nothing but reductions, and these are charged
// at their cost over all groups. (If a reduction and a message reach a network interface at the
// same moment, the two simulations may order them differently.) The final plan is lowered for all
// devices.
#ifndef DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_
#define DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/cut_costs.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/partition/partition.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/search/plan_tables.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

struct BuiltPlan {
  Plan plan;  // not verified
  Nanos step_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // 0 if nothing is filled
  std::vector<Nanos> finish_ns;      // FilledPlan.finish_ns; empty if nothing is filled
  bool exceeded_limit = false;       // no plan was built; a filled one takes at least step_ns
};

struct BuildOptions {
  bool global_norm = true;
  bool exact = false;  // fill plans for all devices optimally (fill/exact.h)
  std::shared_ptr<PlanTables> tables = nullptr;  // null: the builder's own
};

// Builds plans from shapes and cuts for one model, cluster and strategy. The shape supplies the
// schedule, the sharding and the partitioner, which a strategy may leave open. Not thread-safe.
class PlanBuilder {
 public:
  // The devices to lower: one group for all if groups are alike, or every device.
  enum class Extent { kOneGroup, kWhole };

  // `strategy` passes CheckStrategy. `cost` must outlive this.
  PlanBuilder(const Strategy& strategy, const BuildOptions& options, const CostModel& cost);

  // True if plans of this strategy run frozen work in their bubbles. Without cross-iteration
  // nothing can be filled: the pipeline's first forward pass needs this step's frozen work, and no
  // bubble of the step precedes it. Such a plan runs its frozen work first.
  bool fills() const { return fills_; }
  bool cached() const { return strategy_.frozen() == "cached"; }

  // Returns the numbers of frozen hosts (PipelineShape) worth considering in addition to all
  // devices. Empty if nothing is filled or no frozen component's weights take much of a device's
  // memory.
  std::vector<int> FrozenHostCounts(const PipelineShape& shape) const;
  // Returns the minimum memory that any cut of the shape needs, as a multiple of the largest
  // device's memory (memory_bound.h). Returns nullopt if the schedule refuses the shape's
  // peak_limit.
  std::optional<double> MemoryShare(const PipelineShape& shape);
  absl::StatusOr<PipelineCut> Cut(const PipelineShape& shape);
  // Returns the order of the passes in a plan of this cut.
  absl::StatusOr<Schedule> ScheduleOf(const PipelineShape& shape, const PipelineCut& cut,
                                      bool self_conditioning = false) const;
  // Returns that order and, if it splits off weight gradients, the same order with weight gradients
  // elsewhere (fill/weight_order.h).
  absl::StatusOr<std::vector<Schedule>> WeightOrdersOf(const PipelineShape& shape,
                                                       const PipelineCut& cut) const;
  // Moves the cuts of all backbones together under that order (balance_cut.h), judging at most
  // `max_judged` cuts. The result has no order of its own.
  PipelineCut Balance(const PipelineShape& shape, const PipelineCut& cut, const Schedule& schedule,
                      bool by_makespan, int max_judged) const;
  // Returns, by schedule device, about how many more (stage, micro-batch) pairs than under that
  // order fit in its memory. At least that many fit, since each pair counts as the largest one. If
  // there is no limit, returns the number of all pairs of the device.
  std::vector<int> ExtraPairsThatFit(const PipelineShape& shape, const PipelineCut& cut,
                                     const Schedule& schedule) const;
  // Returns the times of passes, messages and optimizer steps, and the number of micro-batches that
  // memory allows each stage to keep.
  PassGraphCosts TimesOf(const PipelineShape& shape, const PipelineCut& cut,
                         const Schedule& schedule) const {
    return TimesOf(shape, cut, schedule, CostsOf(shape, cut, schedule));
  }
  // Same, with `costs` = CostsOf(shape, cut, schedule).
  PassGraphCosts TimesOf(const PipelineShape& shape, const PipelineCut& cut,
                         const Schedule& schedule, const CutCosts& costs) const;
  // Returns the costs of the cut's stages under that order. All three arguments must outlive the
  // result.
  CutCosts CostsOf(const PipelineShape& shape, const PipelineCut& cut,
                   const Schedule& schedule) const;
  // Builds and simulates a plan. With `self_conditioning`, the step runs the backbone twice. A plan
  // that takes longer than `step_limit_ns` (0: no limit) even without its frozen work is not
  // filled.
  absl::StatusOr<BuiltPlan> Build(const PipelineShape& shape, const PipelineCut& cut,
                                  Extent extent = Extent::kOneGroup, bool self_conditioning = false,
                                  Nanos step_limit_ns = 0);
  // Same, with the frozen work before the pipeline. It runs in pieces if a rank's whole share at
  // once exceeds the memory: the largest halves of halves that fit, down to the frozen quantum.
  absl::StatusOr<BuiltPlan> BuildFrozenFirst(const PipelineShape& shape, const PipelineCut& cut,
                                             Extent extent = Extent::kOneGroup,
                                             bool self_conditioning = false);

  // Returns a lower bound on the step: the maximum, over stages, of the sum of an optimizer step,
  // one micro-batch's way into the stage and out of it, and all passes of the stage. Ignores links.
  // If weight gradients are separate passes, the way out does not wait for them; without a global
  // norm, neither does the next step's way in. The bound is then the larger of the path without
  // weight gradients and the path without those ways (lower_bound.h has the proof).
  Nanos LowerBound(const PipelineShape& shape, const PipelineCut& cut) const;
  // Returns the cost model with which plans of `extent` are lowered.
  const CostModel& CostOf(const PipelineShape& shape, Extent extent);

 private:
  Recompute recompute() const;
  StageCostsOptions CostsOptions(const PipelineShape& shape, int backbone) const;
  // Returns the cut of the only backbone with the shortest step, starting from `partition`.
  absl::StatusOr<PipelineCut> ShortestOf(const PipelineShape& shape, const Schedule& schedule,
                                         const ScheduleTraits& traits,
                                         const PartitionProblem& problem,
                                         const ModelStageCosts& costs, const Partition& partition);
  // True if building a plan takes only a millisecond or two.
  bool IsQuicklyBuilt(const PipelineShape& shape) const;
  // Cuts two backbones in opposite directions.
  absl::StatusOr<PipelineCut> CutPair(const PipelineShape& shape, const Schedule& schedule) const;
  // Build, with the blocks of the cut.
  absl::StatusOr<BuiltPlan> BuildCut(const PipelineShape& shape, const PipelineCut& cut,
                                     Extent extent, bool self_conditioning, Nanos step_limit_ns);
  absl::StatusOr<BuiltPlan> Lower(const PipelineShape& shape, const PipelineCut& cut,
                                  const LowerOptions& options, Extent extent,
                                  bool self_conditioning);
  absl::StatusOr<BuiltPlan> BuildFilled(const PipelineShape& shape, const PipelineCut& cut,
                                        Extent extent, bool self_conditioning, Nanos step_limit_ns);
  LowerOptions Options(const PipelineShape& shape, const PipelineCut& cut, FrozenPolicy frozen,
                       Extent extent) const;

  const std::string& PartitionerOf(const PipelineShape& shape) const {
    return shape.partitioner.empty() ? strategy_.partitioner() : shape.partitioner;
  }

  const Strategy strategy_;
  const BuildOptions options_;
  const CostModel& cost_;
  const bool fills_;
  const std::shared_ptr<PlanTables> shared_;
  const std::vector<std::shared_ptr<const BackboneTables>>& tables_;  // by backbone
  int64_t frozen_bytes_ = 0;           // weights on a device that runs every frozen component
  std::vector<int> heavy_components_;  // frozen; some devices need not run them
  int64_t heavy_bytes_ = 0;            // part of frozen_bytes_
  std::map<int, std::unique_ptr<CostModel>> groups_;  // by D
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_BUILD_PLAN_H_
