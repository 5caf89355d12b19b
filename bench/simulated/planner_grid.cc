#include "bench/simulated/planner_grid.h"

#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/base/files/run_paths.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/planner/search.h"
#include "core/schedule/file_formats/plan_io.h"

namespace dpipe::bench {
namespace {

constexpr double kTolerance = 0.001;

struct GridCluster {
  const char* name;
  int num_devices;
};

constexpr GridCluster kClusters[] = {
    {"a100_8x1", 8},           {"a100_8x2", 16},         {"a100_8x4", 32},
    {"a100_8x8", 64},          {"h100_8x1", 8},          {"h100_8x2", 16},
    {"h100_8x4", 32},          {"h100_8x8", 64},         {"h200_8x1", 8},
    {"h200_8x2", 16},          {"h200_8x4", 32},         {"h200_8x8", 64},
    {"a100_2x1_10gbe", 2},     {"a100_8x2_100g", 16},    {"mixed_h100_a100_8x2", 16},
    {"pcie_25gbe_4x4", 16},    {"rtx4090_2x1_10gbe", 2}, {"rtx4090_4x1_pcie", 4},
    {"rtx4090_4x1_shared", 4}, {"rtx4090_8x1_pcie", 8},  {"rtx4090_8x1_shared", 8}};

std::vector<std::string> ModelsOn(const std::string& cluster) {
  if (absl::StartsWith(cluster, "h200")) return {"stable_diffusion_v2_1_512", "sdxl_1024"};
  return {"stable_diffusion_v2_1_512",
          "controlnet_v1_0_512",
          "sdxl_1024",
          "flux_512",
          "flux_1024",
          "cdm_lsun_256"};
}

// Of slower cards the cluster has the speed in proportion to an A100's.
std::string DeviceOf(const std::string& cluster) {
  for (const std::string device : {"h100", "h200"}) {
    if (absl::StartsWith(cluster, device)) return device + "_sxm";
  }
  return "a100_80gb";
}

}  // namespace

std::vector<GridPoint> PlannerGrid() {
  std::vector<GridPoint> points;
  for (const GridCluster& cluster : kClusters) {
    for (const std::string& model : ModelsOn(cluster.name)) {
      for (int samples : {2, 8, 32}) {
        points.push_back({cluster.name, model, samples * cluster.num_devices});
      }
    }
  }
  return points;
}

std::vector<std::string> SimplerStrategies() {
  std::vector<std::string> names;
  for (const NamedStrategy& named : NamedStrategies()) {
    if (named.family == StrategyFamily::kCached || named.family == StrategyFamily::kRelaxed) {
      continue;
    }
    if (named.strategy.name() != "opendiffusionpipe") names.push_back(named.strategy.name());
  }
  return names;
}

absl::StatusOr<GridPlanner> GridPlanner::Read(const GridPoint& point) {
  GridPlanner planner;
  const std::string profile = absl::StrCat("data/profiles/modelled/", DeviceOf(point.cluster), "/",
                                           point.model, ".textproto");
  const std::string cluster = absl::StrCat("data/clusters/", point.cluster, ".textproto");
  DPIPE_RETURN_IF_ERROR(ReadTextProto(ProgramDataPath(profile), &planner.profile_));
  DPIPE_RETURN_IF_ERROR(ReadTextProto(ProgramDataPath(cluster), &planner.cluster_));
  return planner;
}

absl::StatusOr<GridAnswer> GridPlanner::Plan(const std::string& strategy, int global_batch,
                                             int64_t simulation_budget,
                                             int micro_batch_size) const {
  DPIPE_ASSIGN_OR_RETURN(const Strategy found, FindStrategy(strategy));
  PlanOptions options;
  options.global_batch = global_batch;
  options.simulation_budget = simulation_budget;
  options.micro_batch_size = micro_batch_size;
  options.num_candidates = 1;
  const std::clock_t start = std::clock();
  const absl::StatusOr<PlanResult> result = MakePlan(found, profile_, cluster_, options);
  GridAnswer answer;
  answer.planning_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!result.ok()) {
    answer.exceeds_memory_bound = absl::IsResourceExhausted(result.status());
    answer.plan = std::string(result.status().message());
    return answer;
  }
  const PlanCandidate& chosen = result->candidates[0];
  answer.throughput = global_batch * (static_cast<double>(kNanosPerSecond) /
                                      static_cast<double>(result->expected_step_ns));
  answer.plan = absl::StrCat(chosen.schedule, " ", chosen.shard,
                             chosen.recompute ? " recomputing" : "", " S=", chosen.num_stages,
                             " M=", chosen.num_micro_batches, " D=", chosen.devices_per_pipeline);
  return answer;
}

std::vector<int> GridPlanner::MicroBatchSizes(int global_batch) {
  std::vector<int> sizes;
  for (int size = 1; size <= global_batch; ++size) {
    if (global_batch % size == 0) sizes.push_back(size);
  }
  return sizes;
}

bool IsBehind(double a, double b) { return a < (1 - kTolerance) * b; }

}  // namespace dpipe::bench
