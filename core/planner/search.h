// From a strategy, a profile and a cluster to the plan to run.               [algorithms.md §2, §4]
//
// For every schedule and sharding that the strategy names, and every number of pipeline devices S,
// of micro-batches M and of devices a pipeline group D that divide, the step is estimated
// (estimate.h). Then, always the candidate of which the shortest step is expected (frontier.h): it
// is partitioned and estimated again with its stages' times; when it is first once more, it is
// scheduled, lowered, filled and simulated. That ends where what is expected of the rest exceeds
// the best step by 4 % (15 % for a schedule that has not been simulated yet), or the budget does.
// The best few that differ in schedule or S are refined by moving single layers over stage
// boundaries while the simulated step improves, and by moving weight gradients
// (fill/weight_order.h); the best *simulated* plan wins. A filled plan is compared with the same
// pipeline running its frozen work first, and the better is kept. Deterministic: ties go to the
// smaller S, then the smaller M, then the smaller D, then the schedule named first.
//
// There are two rounds, each with its share of the budget: the schedule named first, and the plain
// one of two backbones, under the sharding named first, without recomputation where that is left
// open; then everything else. The first round does not depend on what is in the second, and the
// second only replaces its plan by a better one: naming more schedules makes no plan worse.
// (Candidates are simulated for one group where groups lie alike; should all groups together take
// longer than the first round's, both are built whole and the better is kept.)
//
// A strategy that tunes and fills does four things more:
//   tuning         plans that take up to 8 % longer than the best without any frozen work are
//                  filled, too; of the best of each alternative, then of the best of all, orders
//                  and cuts are tuned (improver.h)
//   rivals         each alternative is also searched as the simpler strategy that it is on its own
//                  (SimplerStrategies), if that may come near the best plan; the better plan is
//                  kept, with frozen work first or filled. A rival is passed over if an ideal plan
//                  of it is slower, or its filled plans are expected to be 5 % slower
//   smaller batch  where one simulation takes 5 % of the budget, a quarter of the batch is searched
//                  first, and what is best there is tried with four times the micro-batches
//   thoroughness   where S and M are left open, the best candidate is improved as thoroughly as
//                  where they are given, unless its step is within 2 % of its stages' lower bound
//
// The budget counts all work, deterministically (search_work.h). As long as nothing fits in memory,
// a round may take 20 times as much (explorer.h). PlanResult.num_left says what the budget left.
//
// A model with self-conditioning has two plans, with and without the extra pass; what counts is
// their mean, weighted by how often each runs.
#ifndef DPIPE_CORE_PLANNER_SEARCH_H_
#define DPIPE_CORE_PLANNER_SEARCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/planner/plan_options.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// One choice of schedule, sharding, S, M and D that was looked at.
struct PlanCandidate {
  std::string schedule;
  std::string shard;  // as Strategy.shard: "none", "zero1" or "zero3"
  int num_stages = 0;
  int num_micro_batches = 0;
  int devices_per_pipeline = 0;
  std::vector<LayerRange> stages;  // of the first backbone; empty where there is no partition
  bool recompute = false;          // on some device
  int frozen_hosts = 0;            // devices of the schedule that run heavy frozen work; 0: all
  Nanos estimate_ns = 0;
  Nanos step_ns = 0;  // simulated; 0 where it was not
  double bubble_ratio = 0;
  std::string outcome;  // "chosen", or why it lost, a sentence
};

struct PlanResult {
  Plan plan;  // passes VerifyPlan and carries its prediction
  // Of the steps that run the backbone twice; no devices where the model has no self-conditioning.
  Plan self_conditioned_plan;
  // The two plans' steps, weighted; plan.prediction().step_ns() where there is one.
  Nanos expected_step_ns = 0;
  // The chosen one, then the others by simulated step, then those that have none; at most
  // PlanOptions.num_candidates.
  std::vector<PlanCandidate> candidates;
  int num_considered = 0;
  int num_simulated = 0;
  // Candidates of the second round that may be better, but the budget ended before they were
  // simulated.
  int num_left = 0;
};

// Errors: InvalidArgument for a request that cannot be met (more devices a pipeline than there are,
// a batch that does not divide, more micro-batches than samples, an unknown strategy),
// ResourceExhausted where nothing fits in memory. One sentence, naming both values.
absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_H_
