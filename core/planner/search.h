// Searches the plan to run for a strategy, a profile and a cluster. [algorithms.md §2, §4]
//
// A candidate is a schedule and a sharding that the strategy names, with a number of pipeline
// devices S, of micro-batches M and of devices per pipeline group D that divide. The search:
//
//   1. Estimates the step of every candidate (estimate.h).
//   2. Explores the candidate with the minimum expected step (frontier.h), again and again. A
//      candidate is first partitioned and estimated with its stages' times; when it is first once
//      more, it is scheduled, lowered, filled and simulated. This ends when the expected steps of
//      the rest exceed the best step by 4 % (15 % for a schedule that has not been simulated yet),
//      or when the budget is used up.
//   3. Refines the best few that differ in schedule or S: moves single layers over stage boundaries
//      while the simulated step improves, and moves weight gradients (fill/weight_order.h).
//   4. Searches with even layer counts, and with the partitioner's own cuts, instead of the chosen
//      cuts, too: over the first schedule and the one found.
//   5. Returns the best simulated plan. A filled plan is compared with the same pipeline running
//      its frozen work first, and the better is kept.
//
// Deterministic: ties go to the smaller S, then the smaller M, then the smaller D, then the
// schedule named first.
//
// There are two rounds, each with its share of the budget. The first covers the schedule named
// first and the plain one for two backbones, "cascaded". It uses the sharding named first, and no
// recomputation if that is left open. The second covers everything else. The first round does not
// depend on the second, and the second only replaces its plan by a better one: naming more
// schedules makes no plan worse. (Candidates are simulated for one group if groups are alike. If
// all groups together take longer than the first round's plan, both are built for all devices and
// the better is kept.)
//
// A strategy that tunes and fills does four things more:
//   tuning         fills plans that take up to 8 % longer than the best without any frozen work;
//                  tunes orders and cuts (improver.h) of the best of each alternative, then of the
//                  best of all
//   rivals         also searches each alternative as the simpler strategy that it is on its own
//                  (SimplerStrategies), if that may come near the best plan; keeps the better plan,
//                  with frozen work first or filled. Skips a rival if an ideal plan of it is
//                  slower, or if its filled plans are expected to be more than 20 % slower
//   smaller batch  if one simulation takes 2 % of the budget, or the budget ended the second round,
//                  searches a quarter of the batch, too, and tries its best plans with four times
//                  the micro-batches, in a new order and in the same order four times (if the batch
//                  does not divide by four, half of it and twice)
//   thoroughness   if S and M are left open, improves the best candidate as thoroughly as if they
//                  were given, unless its step is within 2 % of its stages' lower bound and the
//                  smaller batch's best plan is no faster per sample
//
// The budget counts all work, deterministically (search_work.h). While nothing fits in memory, a
// round may take 20 times as much (explorer.h). PlanResult.num_left counts the candidates that the
// budget did not allow.
//
// A model with self-conditioning has two plans, with and without the extra pass. Their steps count
// as the mean, weighted by how often each runs.
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

// One explored choice of schedule, sharding, S, M and D.
struct PlanCandidate {
  std::string schedule;
  std::string shard;  // as in Strategy.shard: "none", "zero1" or "zero3"
  int num_stages = 0;
  int num_micro_batches = 0;
  int devices_per_pipeline = 0;
  std::vector<LayerRange> stages;  // of the first backbone; empty if there is no partition
  bool recompute = false;          // on some device
  int frozen_hosts = 0;            // schedule devices that run heavy frozen work; 0: all
  Nanos estimate_ns = 0;
  Nanos step_ns = 0;  // simulated; 0 if it was not
  double bubble_ratio = 0;
  std::string outcome;  // "chosen", or a sentence that says why it lost
};

struct PlanResult {
  Plan plan;  // passes VerifyPlan and carries its prediction
  // The plan of the steps that run the backbone twice. Has no devices if the model has no
  // self-conditioning.
  Plan self_conditioned_plan;
  // The weighted mean of the two plans' steps; plan.prediction().step_ns() if there is one plan.
  Nanos expected_step_ns = 0;
  // The chosen candidate, then the others by simulated step, then those without one; at most
  // PlanOptions.num_candidates.
  std::vector<PlanCandidate> candidates;
  int num_considered = 0;
  int num_simulated = 0;
  // Candidates of the second round that may be better but were not simulated because the budget
  // ended.
  int num_left = 0;
};

// Returns the best plan found. Returns InvalidArgument for a request that cannot be met (more
// devices per pipeline than there are, a batch that does not divide, more micro-batches than
// samples, an unknown strategy), and ResourceExhausted if nothing fits in memory. Messages are one
// sentence and name both values.
absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_H_
