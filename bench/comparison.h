// Trains one job by several strategies, interleaved, and says how they compare.
//
// Every strategy gets the same model, data, kernels, precision, initial weights and global batch,
// and the best plan of its own search. They take turns: a few steps of each, over and over, so that
// what else the machine does hits all alike. Those that a GPU has no memory for beside the others
// take their turns after them (session_groups.h). Of a job of several processes all call this
// alike, and the first one has the results.
//
// Plans are made from a profile taken before. Between the turns the model is profiled again,
// shortly and several times: what is shown as predicted is each plan simulated with the median of
// those profiles, so that prediction and measurement speak of the same minutes of a machine that
// others use too.
#ifndef DPIPE_BENCH_COMPARISON_H_
#define DPIPE_BENCH_COMPARISON_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/progress.h"
#include "core/report/results.h"
#include "core/train/job.h"

namespace dpipe::bench {

struct ComparisonOptions {
  std::vector<std::string> strategies;
  int global_batch = 32;
  int num_micro_batches = 0;  // of a pipeline group; 0: each strategy's own search
  int steps = 4;              // measured ones, a repeat
  int warmup_steps = 1;       // before them, a repeat
  int repeats = 15;
  int profiles = 15;  // taken between the turns; at most one a repeat
  // Steps of one device alone that the strategies' are compared with before anything is measured
  // (loss_check.h). With 0 strategies are compared with each other, and with one device only where
  // they disagree.
  int reference_steps = 0;
  // Strategies for which there is no plan are skipped, with the reason, instead of being an error.
  bool skip_impossible = false;
  double slow_down = 0;  // see LocalSessionOptions
  // Plans are made from the profile and the cluster that are stored there (PATH.profile.textproto,
  // PATH.cluster.textproto); where there are none, they are measured and stored. Empty: measured.
  std::string shared_profile;
  // Called before each turn of a strategy, with the profiling that it begins with: another program
  // may have its turn meanwhile. An error ends the comparison.
  std::function<absl::Status()> before_turn;
  // Asked before each turn: who wishes that this ends ("SIGINT"), or "". What all strategies have
  // measured by then is the result (BenchResults::interrupted); Cancelled where that is nothing.
  // All processes of a job have one, or none; what the first one's says counts.
  std::function<std::string()> stop_requested;
};

struct StrategyOutcome {
  Plan plan;
  Trace measured;   // of the turn whose steps are nearest the median of all turns'
  Trace predicted;  // as many steps, simulated with profile_between_turns
};

struct Comparison {
  ModelProfile profile;  // what was planned from
  ClusterSpec cluster;
  ModelProfile profile_between_turns;
  report::BenchResults results;           // only `results` and what follows from the options is set
  std::vector<StrategyOutcome> outcomes;  // in the order of the results; empty of those skipped
};

// Errors: of planning (impossible batch or device counts, unknown strategies) before anything
// trains, and of training.
absl::StatusOr<Comparison> CompareStrategies(const TrainingJob& job,
                                             const ComparisonOptions& options,
                                             report::Progress* progress);

// What results say of a plan.
report::PlanSummary SummarizePlan(const Plan& plan);

// Idle shares of all devices' time in the trace's steady steps, by the reason's name.
absl::StatusOr<std::map<std::string, double>> IdleByReason(const Trace& trace);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_H_
