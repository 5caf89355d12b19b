// A training run put together: the model, the data, a plan for this machine, and the session that
// trains by it.
//
// Of several processes all put it together. The first one decides by which plan and from which step
// on, has the checkpoints, and uses the session; the others' sessions follow.
#ifndef DPIPE_TOOLS_TRAINING_RUN_H_
#define DPIPE_TOOLS_TRAINING_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/runtime/local_session.h"
#include "core/train/adamw_optimizer.h"
#include "data/sample_source.h"
#include "models/trainable/training_setup.h"
#include "tools/training_checkpoints.h"
#include "tools/training_options.h"

namespace dpipe::tools {

// What a plan is made from.
struct PlanBasis {
  ModelProfile profile;
  ClusterSpec cluster;
};

class TrainingRun {
 public:
  using Say = std::function<void(const std::string& line)>;
  using ShowProgress = std::function<void(const std::string& phase, double share_done)>;

  // Loads, profiles and plans; `say` gets a few lines about each, `show` how far it is. `options`
  // outlive the run.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(const TrainerOptions& options,
                                                             const Say& say,
                                                             const ShowProgress& show);

  const TrainerOptions& options() const { return options_; }
  models::TrainingSetup& setup() { return *setup_; }
  const models::TrainingSetup& setup() const { return *setup_; }
  const TrainingJob& job() const { return job_; }
  const Plan& plan() const { return plans_.plan; }
  // Null where the plan is a checkpoint's and nothing else was given, and where another process
  // leads.
  const PlanBasis* plan_basis() const { return basis_.has_value() ? &*basis_ : nullptr; }
  LocalSession& session() { return *session_; }
  // Whether training has ended with an error of its own.
  bool failed() const { return session_ != nullptr && session_->failed(); }
  int64_t num_steps() const { return num_steps_; }  // when it is to end
  int64_t first_step() const { return job_.first_step; }
  // What the run goes on from; null where it begins, and where another process leads.
  const CheckpointInfo* resumed() const {
    return checkpoints_ == nullptr ? nullptr : checkpoints_->resumed();
  }
  // How many times the data set has been seen after so many steps.
  double Epoch(int64_t steps) const;

  bool has_averages() const { return job_.optimizer.ema_decay > 0; }
  // Copies, by name; call them between steps. Averages where they are kept, which is what is saved
  // and drawn from; else what is trained.
  absl::StatusOr<models::NamedTensors> Weights() const;
  absl::StatusOr<models::NamedTensors> TrainedWeights() const;

  // Between steps. `info` has what changes from step to step, and only the trainer knows: the loss,
  // the time, the skipped steps. `is_last`: see TrainingCheckpoints::Save.
  absl::Status SaveCheckpoint(CheckpointInfo info, bool is_last);
  // After the last checkpoint: keeps the weights that are still to be looked at, and lets the other
  // processes go, so that nothing that happens to them disturbs what is left to do. There is no
  // session any more.
  absl::Status EndSession();
  TrainingCheckpoints& checkpoints() { return *checkpoints_; }
  const TrainingCheckpoints& checkpoints() const { return *checkpoints_; }

 private:
  explicit TrainingRun(const TrainerOptions& options)
      : options_(options), strategy_(options.strategy) {}
  ProcessGroup* processes() const { return options_.setup.processes; }
  bool leads() const { return processes() == nullptr || processes()->is_leader(); }
  // That all processes have the same data and flags; at which step the data's order begins.
  absl::StatusOr<int64_t> AgreeOnOrder(const SampleSource& data);
  // Of the step that comes next, and of what is held out.
  absl::Status DecodeFirstBatches();
  absl::Status BuildCache(const Say& say, const ShowProgress& show);
  int num_devices() const;  // of all processes
  // Of those that plans may have.
  std::vector<int> LocalBatches() const;
  // That the profile and the cluster that were given are of this run.
  absl::Status CheckBasis();
  absl::Status MeasureBasis(const ShowProgress& show);
  // The saved plans where they fit, else new ones.
  absl::Status FindThePlans(const Say& say, const ShowProgress& show);
  // That the batch divides, before anything is timed.
  absl::Status CheckBatch() const;
  absl::Status MakeThePlans(const ShowProgress& show);
  std::map<std::string, std::string> PlanIsFor() const;
  void ChooseSteps();
  absl::Status TakeOrders();
  void WarnOfMemory(const Say& say) const;
  absl::Status Start();

  const TrainerOptions& options_;
  Strategy strategy_;  // the options', but for what a partial cache changes
  std::unique_ptr<TrainingCheckpoints> checkpoints_;  // null where another process leads
  DataOrder order_;  // of another process's, its first step alone is known
  std::unique_ptr<models::TrainingSetup> setup_;
  TrainingJob job_;
  std::optional<PlanBasis> basis_;
  TrainingPlans plans_;
  int64_t num_steps_ = 0;
  std::unique_ptr<LocalSession> session_;
  // What a session that has ended has left.
  std::optional<models::NamedTensors> last_weights_, last_trained_weights_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_RUN_H_
