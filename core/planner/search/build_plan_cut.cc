// Chooses between several cuts of one backbone.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/planner/cuts/cut_choice.h"
#include "core/planner/search/build_plan.h"
#include "core/schedule/memory/memory.h"

namespace dpipe {
namespace {

// Two cuts of a small pipeline are compared by simulation, since whole samples of frozen work and
// contention weigh more there. A pipeline is small up to this many devices times micro-batches and,
// if frozen work fills gaps, this product of those, the layers of frozen work and the square of the
// units per device. For larger pipelines, a cut must beat the even one by this factor in the
// estimated step.
constexpr int64_t kMaxPasses = 600;
constexpr int64_t kMaxPacked = 20'000;
constexpr double kMinGain = 1.01;

}  // namespace

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
