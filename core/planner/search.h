// From a strategy, a profile and a cluster to the plan to run.               [algorithms.md §2, §4]
//
// For every schedule that the strategy names, and every number of pipeline devices S, of
// micro-batches M and of devices a pipeline group D that divide, the step is estimated
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
// one of two backbones, without recomputation where that is left open; then everything else. The
// first round does not depend on what is in the second, and the second only replaces its plan by a
// better one: naming more schedules makes no plan worse. (Candidates are simulated for one group
// where groups lie alike; should all groups together take longer than the first round's, both are
// built whole and the better is kept.)
//
// A model with self-conditioning has two plans, with and without the extra pass; what counts is
// their mean, weighted by how often each runs.
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
  int stages_per_device = 0;     // of schedules that leave it open; 0: their default
  bool global_norm = true;       // gradients are clipped by their global norm: see Plan.global_norm
  bool refine = true;            // "balanced" only: move single layers over stage boundaries
  bool exact = false;            // fill the chosen plan optimally: small instances only (exact.h)
  // How many instructions may be lowered and simulated, about, the other work of a candidate
  // counted in such; what is left of a large search is judged by estimates. Where the number of
  // stages and micro-batches is given, tuning the best few may take more: 5.5 times as many, the
  // best of them once more 0.6 times as many, and joint searches (joint_search.h) 0.6 times as many
  // moves of passes beside them.
  int64_t simulation_budget = 1000000;
  int num_candidates = 5;  // how many to report
};

// One choice of schedule, S, M and D that was looked at.
struct PlanCandidate {
  std::string schedule;
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
};

// Errors: InvalidArgument for a request that cannot be met (more devices a pipeline than there are,
// a batch that does not divide, more micro-batches than samples, an unknown strategy),
// ResourceExhausted where nothing fits in memory. One sentence, naming both values.
absl::StatusOr<PlanResult> MakePlan(const Strategy& strategy, const ModelProfile& profile,
                                    const ClusterSpec& cluster, const PlanOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_H_
