// The grid of the paper's comparison, by simulation: models x cluster sizes x batches x strategies.
#ifndef DPIPE_BENCH_PAPER_GRID_H_
#define DPIPE_BENCH_PAPER_GRID_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
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
struct Contender {
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
  Nanos step_ns = 0;
  Nanos lower_bound_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // of the same schedule before filling; 0 where not filled
  int64_t peak_memory_bytes = 0;     // of the fullest device
  std::string schedule;
  int num_stages = 0;  // of the plan, over all chains
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  Nanos planning_ns = 0;  // wall clock of MakePlan here

  bool planned() const { return refusal.empty(); }
};

struct CaseResult {
  std::string model;
  std::string cluster;
  int num_devices = 0;
  int global_batch = 0;
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
  std::string device = "a100";  // clusters/<device>_8x<nodes>.textproto
  std::string profiles_folder;  // <profiles_folder>/<model>.textproto
  std::string clusters_folder;
  std::vector<std::string> models;
  std::vector<int> devices;         // multiples of 8
  std::vector<int> device_batches;  // samples a device; the global batch is that times the devices
  std::vector<Contender> contenders;
  std::vector<Contender> ablations;
};

// Every case of the grid in order. Contenders that cannot be planned, or whose plan leaves out a
// backbone, are outcomes with a refusal; an error is a file that cannot be read. `on_case`, if set,
// is called before each case.
absl::StatusOr<std::vector<CaseResult>> RunGrid(
    const GridOptions& options, const std::function<void(const CaseResult&)>& on_case = nullptr);

// All named strategies, and what the ablations of diffusionpipe are.
std::vector<Contender> NamedContenders();
std::vector<Contender> AblationContenders();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_GRID_H_
