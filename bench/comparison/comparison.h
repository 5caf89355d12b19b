// Trains one job by several strategies in turns and compares them.
//
// Every strategy gets the same model, data, kernels, precision, initial weights and global batch,
// and the best plan of its own search. The strategies take turns of a few steps each, so that other
// work on the machine affects all of them alike. Strategies that do not fit into a GPU's memory
// beside the others take their turns after them (session_groups.h). All processes of a job call
// this with the same arguments, and the first one gets the results.
//
// Plans are made from a profile taken before training. Between the turns the model is profiled
// again, briefly and several times. The predicted numbers are each plan's simulation with the
// median of those profiles. So prediction and measurement cover the same minutes on a machine
// shared with others.
#ifndef DPIPE_BENCH_COMPARISON_COMPARISON_H_
#define DPIPE_BENCH_COMPARISON_COMPARISON_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/results.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/progress.h"
#include "core/train/job.h"

namespace dpipe::bench {

struct ComparisonOptions {
  std::vector<std::string> strategies;
  int global_batch = 32;
  int num_micro_batches = 0;  // per pipeline group; 0: each strategy's own search
  int steps = 4;              // measured steps per repeat
  int warmup_steps = 1;       // before them, per repeat
  int repeats = 15;
  int profiles = 15;  // taken between the turns; at most one per repeat
  // Number of steps trained on one device before anything is measured, to compare the strategies'
  // steps with (loss_check.h). If 0, strategies are compared with each other, and with one device
  // only if they disagree.
  int reference_steps = 0;
  // Skips strategies that have no plan, with the reason, instead of returning an error.
  bool skip_impossible = false;
  double slow_down = 0;  // see LocalSessionOptions
  // Prefix of files with the profile and the cluster to plan from (PATH.profile.textproto,
  // PATH.cluster.textproto). If they do not exist, they are measured and stored. Empty: measured.
  std::string shared_profile;
  // Called before each turn of a strategy, including the profiling at its start, so that another
  // program can take its turn. An error ends the comparison.
  std::function<absl::Status()> before_turn;
  // Called before each turn. Returns the source of a request to stop ("SIGINT"), or "". The result
  // then has the turns that all strategies have completed (CaseResult.interrupted); if there are
  // none, CompareStrategies returns Cancelled. TrainingJob.should_stop ends profiling, too. All
  // processes of a job must set it, or none; the first one's answer counts.
  std::function<std::string()> stop_requested;
};

struct StrategyOutcome {
  Plan plan;
  Trace measured;   // the turn whose steps are nearest to the median of all turns
  Trace predicted;  // equally many steps, simulated with profile_between_turns
};

struct Comparison {
  ModelProfile profile;  // the basis of the plans
  ClusterSpec cluster;
  ModelProfile profile_between_turns;
  CaseResult results;                     // has only strategies and fields derived from the options
  std::vector<StrategyOutcome> outcomes;  // in the order of the results; empty if skipped
};

// Trains by all strategies and compares them. Returns errors of planning (impossible batch or
// device counts, unknown strategies) before anything is trained, and errors of training.
absl::StatusOr<Comparison> CompareStrategies(const TrainingJob& job,
                                             const ComparisonOptions& options,
                                             report::Progress* progress);

// Returns a summary of a plan for results.
PlanSummary SummarizePlan(const Plan& plan);

// True for a pipeline that leaves its bubbles empty and computes the frozen work itself. A cascade
// whose backbones are each on every device is no pipeline, although it has several stages.
bool IsUnfilledPipeline(const Strategy& strategy, const Plan& plan);

// Sets the predicted step, bubbles and memory, and the step's lower bound, from a plan's
// prediction.
void SetPrediction(const Plan& annotated, StrategyResult* result);

// Sets each reason's share of all devices' time that is idle in the trace's steady steps.
absl::Status SetIdleByReason(const Trace& trace, StrategyResult* result);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_COMPARISON_H_
