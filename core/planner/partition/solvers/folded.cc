#include "core/planner/partition/solvers/folded.h"

#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/nested.h"
#include "core/planner/partition/solvers/refine.h"

namespace dpipe {
namespace {

bool IsV(const PartitionProblem& problem) {
  const int num_stages = problem.num_stages();
  if (problem.num_copies() != 1 || num_stages != 2 * problem.num_devices()) return false;
  std::vector<bool> seen(problem.num_devices(), false);
  for (int k = 0; k < num_stages / 2; ++k) {
    const int device = problem.devices_of_stage[k][0];
    if (device != problem.devices_of_stage[num_stages - 1 - k][0] || seen[device]) return false;
    seen[device] = true;
  }
  return true;
}

bool CostTheSame(const PartitionProblem& problem, const DeviceSeat& a, const DeviceSeat& b) {
  const LayerRange all{0, problem.costs->num_layers()};
  return a.replicas == b.replicas &&
         problem.costs->ComputeNs(a, all) == problem.costs->ComputeNs(b, all) &&
         problem.costs->MemoryLimitBytes(a) == problem.costs->MemoryLimitBytes(b);
}

bool IsTwoWay(const PartitionProblem& problem) {
  const int num_stages = problem.num_stages();
  if (problem.num_copies() != 2 || num_stages != problem.num_devices() || num_stages % 2 != 0) {
    return false;
  }
  const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, false);
  for (int k = 0; k < num_stages; ++k) {
    if (problem.devices_of_stage[k] != std::vector<int>{k, num_stages - 1 - k}) return false;
    if (!CostTheSame(problem, seats[k], seats[num_stages - 1 - k])) return false;
  }
  return true;
}

// If memory limits bind, the exact search takes too long for one candidate of a plan with more
// layers.
constexpr int kMaxLayersUnderLimits = 60;

absl::StatusOr<std::vector<LayerRange>> Cut(const PartitionProblem& problem, bool recompute,
                                            bool has_limits) {
  const StageCosts& costs = *problem.costs;
  const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, recompute);
  const int num_stages = problem.num_stages();
  const auto seat_of = [&](int k) { return seats[problem.devices_of_stage[k][0]]; };
  NestedProblem nested;
  nested.num_devices = num_stages / 2;
  nested.num_front = costs.num_layers();
  nested.front_time = nested.back_time = [&](int k, LayerRange layers) {
    return costs.ComputeNs(seat_of(k), layers);
  };
  nested.memory_grows = !recompute;
  nested.fits = [&](int k, LayerRange front, LayerRange back) {
    if (!has_limits) return true;
    for (int copy = 0; copy < problem.num_copies(); ++copy) {
      const int device = problem.devices_of_stage[k][copy];
      const int64_t limit = costs.MemoryLimitBytes(seats[device]);
      if (limit == 0) continue;
      const std::vector<HeldStage> held = {
          {k, copy, front}, {num_stages - 1 - k, problem.num_copies() - 1 - copy, back}};
      if (costs.MemoryBytes(device, seats[device], held) > limit) return false;
    }
    return true;
  };
  const NestedSolution solution = SolveNested(nested);
  if (solution.devices.empty()) return absl::ResourceExhaustedError("no cut fits");
  std::vector<LayerRange> stages(num_stages);
  for (int k = 0; k < nested.num_devices; ++k) {
    stages[k] = solution.devices[k].first;
    stages[num_stages - 1 - k] = solution.devices[k].second;
  }
  return stages;
}

// Returns the optimum without limits. It depends only on times, so schedules with the same
// placement share it.
absl::StatusOr<std::vector<LayerRange>> CutWithoutLimits(const PartitionProblem& problem,
                                                         bool recompute) {
  KnownCuts* const known = problem.costs->known_cuts();
  if (known == nullptr) return Cut(problem, recompute, /*has_limits=*/false);
  const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, recompute);
  std::vector<double> key = {static_cast<double>(problem.num_stages())};
  for (int k = 0; k < problem.num_stages() / 2; ++k) {
    for (double number : problem.costs->TimesKey(seats[problem.devices_of_stage[k][0]])) {
      key.push_back(number);
    }
  }
  if (const auto found = known->find(key); found != known->end()) return found->second;
  DPIPE_ASSIGN_OR_RETURN(std::vector<LayerRange> stages,
                         Cut(problem, recompute, /*has_limits=*/false));
  known->emplace(std::move(key), stages);
  return stages;
}

}  // namespace

bool IsFolded(const PartitionProblem& problem) { return IsV(problem) || IsTwoWay(problem); }

absl::StatusOr<Partition> PartitionFolded(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_CHECK(IsFolded(problem));
  const bool recompute = problem.recompute == Recompute::kFull;
  // If the optimum without limits keeps to the limits, it is the optimum.
  absl::StatusOr<std::vector<LayerRange>> stages = CutWithoutLimits(problem, recompute);
  if (stages.ok()) {
    const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, recompute);
    if (CheckMemory(problem, *stages, seats).ok()) {
      return ScorePartition(problem, *std::move(stages), seats);
    }
  }
  if (problem.costs->num_layers() > kMaxLayersUnderLimits) return PartitionByRefinement(problem);
  stages = Cut(problem, recompute, /*has_limits=*/true);
  if (!stages.ok() && problem.recompute == Recompute::kAuto) stages = Cut(problem, true, true);
  // The local search ends near a fit and names what does not fit.
  if (!stages.ok()) return PartitionByRefinement(problem);
  return FinishPartition(problem, *std::move(stages));
}

}  // namespace dpipe
