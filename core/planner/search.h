// From a strategy, a profile and a cluster to the plan to run.               [algorithms.md §2, §4]
//
// For every number of stages S, of micro-batches M and of devices a pipeline D that divide and fit
// in memory: partition, schedule, lower, fill, simulate. The best *simulated* plan wins, not the
// best bound; it is then refined by moving single layers over stage boundaries while the simulated
// step improves. A filled plan is compared with the same pipeline running its frozen work first,
// and the better is kept. Deterministic: ties go to the smaller S, then the smaller M, then the
// smaller D.
#ifndef DPIPE_CORE_PLANNER_SEARCH_H_
#define DPIPE_CORE_PLANNER_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

struct PlanOptions {
  int global_batch = 0;
  int num_stages = 0;            // S; 0: search
  int num_micro_batches = 0;     // M of one pipeline group; 0: search
  int micro_batch_size = 0;      // samples of a micro-batch of one pipeline group; 0: search
  int devices_per_pipeline = 0;  // D; 0: search
  bool global_norm = true;       // gradients are clipped by their global norm: see Plan.global_norm
  bool refine = true;            // "balanced" only: move single layers over stage boundaries
  // How many instructions may be lowered and simulated, about; what is left of a large search is
  // judged by estimates, the most promising candidates first. A million take about a second.
  int64_t simulation_budget = 1000000;
  int num_candidates = 5;  // how many to report
};

// One choice of S, M and D that was looked at.
struct PlanCandidate {
  std::string schedule;
  int num_stages = 0;
  int num_micro_batches = 0;
  int devices_per_pipeline = 0;
  std::vector<LayerRange> stages;  // empty where there is no partition
  Nanos step_ns = 0;               // simulated; 0 where it was not
  double bubble_ratio = 0;
  std::string outcome;  // "chosen", or why it lost, a sentence
};

struct PlanResult {
  Plan plan;  // passes VerifyPlan and carries its prediction
  // The chosen one, then the others by simulated step, then those that have none; at most
  // PlanOptions.num_candidates.
  std::vector<PlanCandidate> candidates;
  int num_considered = 0;
};

// Errors: InvalidArgument for a request that cannot be met (more devices a pipeline than there are,
// a batch that does not divide, more micro-batches than samples, an unknown strategy),
// ResourceExhausted where nothing fits in memory. One sentence, naming both values.
absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_H_
