// The grid of the paper's comparison by simulation: models x cluster sizes x batches x strategies.
#ifndef DPIPE_BENCH_SIMULATED_PAPER_GRID_H_
#define DPIPE_BENCH_SIMULATED_PAPER_GRID_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/planner/search.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe::bench {

// A strategy's role in the comparison.
enum class Role {
  kDataParallel,  // one stage on every device
  kSharded,       // data parallel with parameters, gradients and moments divided (ZeRO-3)
  kPipeline,      // a pipeline that does not fill its bubbles
  kFilled,        // a pipeline that fills its bubbles
  kCached,        // frozen outputs come from a cache that was filled before
};
Role RoleOf(const Strategy& strategy);

// A strategy to plan with, and its label in tables.
struct GridEntry {
  std::string label;
  std::string spec;  // for FindStrategy
};

// The result of one contender in one case.
struct Outcome {
  std::string label;
  std::string spec;
  Role role = Role::kPipeline;
  std::string refusal;  // why there is no plan; empty if there is one
  double images_per_second = 0;
  Nanos step_ns = 0;  // weighted mean of the two plans, if the model has self-conditioning
  Nanos lower_bound_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // of the same schedule before filling; 0 if not filled
  int64_t peak_memory_bytes = 0;     // maximum over devices
  std::string schedule;
  int num_stages = 0;  // of the plan, over all chains
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  Nanos planning_ns = 0;  // processor time of MakePlan on this machine

  bool planned() const { return refusal.empty(); }
};

// One row of a table, before it is planned.
struct GridCase {
  std::string chapter;  // of the report; empty: the paper's tables
  std::string model;
  std::string device = "a100";  // names the modelled profiles and clusters: a100, h100, h200
  // Name of a file in the folder of clusters; empty: <device>_8x<nodes>.
  std::string cluster;
  int num_devices = 8;  // of the cluster; if it has no name, a multiple of a node's 8
  // Prices sums and gathers as NCCL's, which is best for strategies that divide their state.
  bool nccl = false;
  int global_batch = 0;
  // Pipeline depth in devices, which is also the size of a pipeline group, and micro-batches per
  // group. If 0, the search chooses.
  int num_stages = 0;
  int num_micro_batches = 0;
  std::vector<GridEntry> contenders;
  std::vector<GridEntry> ablations;  // planned too, shown in their own table
};

struct GridResult {
  std::string chapter;  // as in GridCase
  std::string model;
  std::string device;  // as in GridCase
  std::string cluster;
  bool nccl = false;  // as in GridCase
  int num_devices = 0;
  int global_batch = 0;
  int num_stages = 0;              // as requested in GridCase
  int num_micro_batches = 0;       // as requested in GridCase
  Nanos min_step_ns = 0;           // see SetWorkBounds; 0: unknown
  std::vector<Outcome> outcomes;   // in the order of the contenders
  std::vector<Outcome> ablations;  // in the order of the case's ablations

  // Returns the outcome with that label if it was planned, and null otherwise.
  const Outcome* Find(const std::string& label) const;
  // Returns the fastest planned outcome of a role, the first of equals; null if there is none.
  const Outcome* Fastest(Role role) const;
};

// Returns the ratio of images per second; NaN if either is null.
double Speedup(const Outcome* of, const Outcome* over);

// Returns the profile of a model on a device of roofline::Devices(), "a100_80gb".
using MakeProfile = std::function<absl::StatusOr<ModelProfile>(const std::string& model,
                                                               const std::string& device)>;

struct GridOptions {
  // <profiles>/{a100_80gb,h100_sxm,h200_sxm}/<model>.textproto
  std::string profiles_folder = "data/profiles/modelled";
  std::string clusters_folder = "data/clusters";  // <clusters>/<cluster>.textproto
  // Makes the profiles of a chapter's models; chapters that are not here read files.
  std::map<std::string, MakeProfile> profiles_of_chapter;
  int64_t simulation_budget = PlanOptions().simulation_budget;  // per search; at least 1
  int jobs = 1;  // number of threads, which plan one case each
};

// Plans all cases, and returns results in the order of the cases. A contender that cannot be
// planned, or whose plan leaves out a backbone, gets an outcome with a refusal. Returns an error if
// a file cannot be read or a case is wrong. Contenders with an outcome of the same case in
// `finished` are not planned again. `on_finished`, if set, is called after each case, one call at
// a time, with the results so far; an error from it ends the grid.
using OnFinished = std::function<absl::Status(const std::vector<GridResult>& results, size_t total,
                                              const GridResult& last)>;
absl::StatusOr<std::vector<GridResult>> RunGrid(const GridOptions& options,
                                                const std::vector<GridCase>& cases,
                                                const std::vector<GridResult>& finished = {},
                                                const OnFinished& on_finished = nullptr);

// Sets min_step_ns, a lower bound on the step of every plan with the case's S and M, or of any
// plan if the case leaves them free (sim/lower_bound.h). Returns an error if a file cannot be read.
absl::Status SetWorkBounds(const GridOptions& options, std::vector<GridResult>* results);

// Returns the profile of a case's model, which is read or made. Returns InvalidArgument for an
// unknown device.
absl::StatusOr<ModelProfile> ProfileOf(const GridOptions& options, const std::string& chapter,
                                       const std::string& model, const std::string& device);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PAPER_GRID_H_
