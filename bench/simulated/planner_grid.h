// What must hold of the planner on every model, cluster and batch, and the grid to try it on.
//
//   never behind    opendiffusionpipe is at least as fast as every simpler strategy that computes
//                   the same gradients
//   no fall         throughput does not fall when the global batch grows
//   no false "no"   if a plan is refused for lack of memory, it is refused with every micro-batch
//                   size that divides, too
//
// The first two to 0.1 %. `//bench:planner_oracles` checks the whole grid,
// `//tests:planner_oracles_test` a sample of it.
#ifndef DPIPE_BENCH_SIMULATED_PLANNER_GRID_H_
#define DPIPE_BENCH_SIMULATED_PLANNER_GRID_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/plan_options.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe::bench {

struct GridPoint {
  std::string cluster, model;  // file names in data/clusters and data/profiles/modelled/<device>
  int global_batch = 0;
};

// Each cluster with each model that has a profile for its devices, at 2, 8 and 32 samples a device;
// batches of one cluster and model one after another, ascending.
std::vector<GridPoint> PlannerGrid();

// The strategies that compute one device's gradients on the fly, without opendiffusionpipe.
std::vector<std::string> SimplerStrategies();

struct GridAnswer {
  double throughput = 0;  // samples/s; 0: refused
  std::string plan;       // schedule, sharding, S, M and D; of a refusal, why
  bool exceeds_memory_bound = false;
  double planning_s = 0;  // processor time
};

// One model on one cluster.
class GridPlanner {
 public:
  // Reads the point's files.
  static absl::StatusOr<GridPlanner> Read(const GridPoint& point);

  // `micro_batch_size` 0: free. A refusal is an answer; errors: an unknown strategy.
  absl::StatusOr<GridAnswer> Plan(const std::string& strategy, int global_batch,
                                  int64_t simulation_budget, int micro_batch_size = 0) const;
  // The sizes that a micro-batch of a pipeline may have, ascending.
  static std::vector<int> MicroBatchSizes(int global_batch);

 private:
  ModelProfile profile_;
  ClusterSpec cluster_;
};

// Whether `a` is behind `b` by more than 0.1 %.
bool IsBehind(double a, double b);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PLANNER_GRID_H_
