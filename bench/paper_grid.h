// The grid of the paper's comparison, by simulation: models x cluster sizes x batches x strategies.
#ifndef DPIPE_BENCH_PAPER_GRID_H_
#define DPIPE_BENCH_PAPER_GRID_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/planner/search.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe::bench {

// What a strategy is in the comparison.
enum class Role {
  kDataParallel,  // one stage on every device
  kSharded,       // data parallel with parameters, gradients and moments divided (ZeRO-3)
  kPipeline,      // a pipeline that does not fill its bubbles
  kFilled,        // one that does
  kCached,        // frozen outputs come from a cache that somebody filled before
};
Role RoleOf(const Strategy& strategy);

// A strategy to plan by, under the name that tables show.
struct GridEntry {
  std::string label;
  std::string spec;  // of FindStrategy
};

// What became of one contender in one case.
struct Outcome {
  std::string label;
  std::string spec;
  Role role = Role::kPipeline;
  std::string refusal;  // why there is no plan; empty where there is one
  double images_per_second = 0;
  Nanos step_ns = 0;  // the two plans' weighted mean, where the model has self-conditioning
  Nanos lower_bound_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // of the same schedule before filling; 0 where not filled
  int64_t peak_memory_bytes = 0;     // of the fullest device
  std::string schedule;
  int num_stages = 0;  // of the plan, over all chains
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  Nanos planning_ns = 0;  // processor time of MakePlan here

  bool planned() const { return refusal.empty(); }
};

// One row of a table, before it is planned.
struct GridCase {
  std::string model;
  std::string device = "a100";  // modelled profiles and clusters of it: a100, h100, h200
  int num_devices = 8;          // a multiple of the 8 of a node
  int global_batch = 0;
  // Pipeline depth in devices, each pipeline group of so many, and micro-batches of a group; 0: the
  // search chooses.
  int num_stages = 0;
  int num_micro_batches = 0;
  std::vector<GridEntry> contenders;
  std::vector<GridEntry> ablations;  // planned likewise, shown apart
};

struct CaseResult {
  std::string model;
  std::string cluster;
  int num_devices = 0;
  int global_batch = 0;
  int num_stages = 0;              // as asked for in GridCase
  int num_micro_batches = 0;       // likewise
  Nanos least_step_ns = 0;         // SetWorkBounds; 0: not known
  std::vector<Outcome> outcomes;   // in the order of the contenders
  std::vector<Outcome> ablations;  // likewise

  // The outcome of that label where it was planned, else null.
  const Outcome* Find(const std::string& label) const;
  // The fastest planned one of a role, the first of equals; null if there is none.
  const Outcome* Fastest(Role role) const;
};

// images/s of `of` over those of `over`; NaN where either is null.
double Speedup(const Outcome* of, const Outcome* over);

struct GridOptions {
  // <profiles>/{a100_80gb,h100_sxm,h200_sxm}/<model>.textproto
  std::string profiles_folder = "data/profiles/modelled";
  std::string clusters_folder = "data/clusters";  // <clusters>/<device>_8x<nodes>.textproto
  int64_t simulation_budget = PlanOptions().simulation_budget;  // of each search; at least 1
  int jobs = 1;                                                 // threads that plan cases, one each
};

// Results in the order of the cases. Contenders that cannot be planned, or whose plan leaves out a
// backbone, are outcomes with a refusal; an error is a file that cannot be read or a wrong case.
// A case that `finished` has a result for, of the same contenders, is not planned again.
// `on_finished`, if set, is called after each case, one call at a time, with what is there so far;
// an error that it returns ends the grid.
using OnFinished = std::function<absl::Status(const std::vector<CaseResult>& results, size_t total,
                                              const CaseResult& last)>;
absl::StatusOr<std::vector<CaseResult>> RunGrid(const GridOptions& options,
                                                const std::vector<GridCase>& cases,
                                                const std::vector<CaseResult>& finished = {},
                                                const OnFinished& on_finished = nullptr);

// Sets least_step_ns: no plan of the case's S and M, or of any where it leaves them free, has a
// shorter step (sim/work_bound.h). Errors: files that cannot be read.
absl::Status SetWorkBounds(const GridOptions& options, std::vector<CaseResult>* results);

// Where the options have a model's profile for a device. InvalidArgument for an unknown device.
absl::StatusOr<std::string> ProfilePath(const GridOptions& options, const std::string& model,
                                        const std::string& device);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_GRID_H_
