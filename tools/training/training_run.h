// A complete training run: the model, the data, a plan for this machine, and the session that
// trains by it.
//
// In a run of several processes all of them create one. Process 0 chooses the plan and the first
// step, owns the checkpoints, and uses the session; the other sessions follow.
#ifndef DPIPE_TOOLS_TRAINING_TRAINING_RUN_H_
#define DPIPE_TOOLS_TRAINING_TRAINING_RUN_H_

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
#include "core/runtime/session/local_session.h"
#include "core/train/optimizer/adamw_optimizer.h"
#include "data/sample_source.h"
#include "models/trainable/training_setup.h"
#include "tools/training/training_checkpoints.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// The inputs of a plan.
struct PlanBasis {
  ModelProfile profile;
  ClusterSpec cluster;
};

class TrainingRun {
 public:
  using Say = std::function<void(const std::string& line)>;
  using ShowProgress = std::function<void(const std::string& phase, double share_done)>;

  // Loads the model and the data, profiles and plans. `say` gets a few lines about each, `show` the
  // progress. `options` outlive the run. Returns Cancelled if options.setup.should_stop ends it.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(const TrainerOptions& options,
                                                             const Say& say,
                                                             const ShowProgress& show);

  const TrainerOptions& options() const { return options_; }
  models::TrainingSetup& setup() { return *setup_; }
  const models::TrainingSetup& setup() const { return *setup_; }
  const TrainingJob& job() const { return job_; }
  const Plan& plan() const { return plans_.plan; }
  // Null if the plan is a checkpoint's and no profile was given, and if another process leads.
  const PlanBasis* plan_basis() const { return basis_.has_value() ? &*basis_ : nullptr; }
  const std::vector<std::string>& grid_prompts() const { return grid_prompts_; }
  LocalSession& session() { return *session_; }
  // True if training itself has ended with an error.
  bool failed() const { return session_ != nullptr && session_->failed(); }
  int64_t num_steps() const { return num_steps_; }  // the run's total
  int64_t first_step() const { return job_.first_step; }
  // The checkpoint that the run resumes from. Null if it starts from the beginning, and if another
  // process leads.
  const CheckpointInfo* resumed() const {
    return checkpoints_ == nullptr ? nullptr : checkpoints_->resumed();
  }
  // Returns the number of passes over the data set after `steps` steps.
  double Epoch(int64_t steps) const;

  bool has_averages() const { return job_.optimizer.ema_decay > 0; }
  // Return copies by name; call between steps. Weights returns those that are saved and drawn from:
  // averages if they are kept, and otherwise the trained weights.
  absl::StatusOr<models::NamedTensors> Weights() const;
  absl::StatusOr<models::NamedTensors> TrainedWeights() const;
  // Returns the source of Weights, which gets each from its rank when it is read, between steps.
  // This object must outlive it.
  nn::ParameterSourcePtr SavedWeights() const;

  // Saves a checkpoint; call between steps. `info` has the values that only the trainer knows: the
  // loss, the time, the skipped steps. `is_last`: see TrainingCheckpoints::Save.
  absl::Status SaveCheckpoint(CheckpointInfo info, bool is_last);
  // Ends the session after everything is saved, and releases the other processes, so that their
  // failures cannot disturb the remaining work. Keeps the weights if that needs them.
  absl::Status EndSession(bool keeps_weights);
  TrainingCheckpoints& checkpoints() { return *checkpoints_; }
  const TrainingCheckpoints& checkpoints() const { return *checkpoints_; }

 private:
  explicit TrainingRun(const TrainerOptions& options)
      : options_(options), strategy_(options.strategy) {}
  ProcessGroup* processes() const { return options_.setup.processes; }
  bool leads() const { return processes() == nullptr || processes()->is_leader(); }
  // Checks that all processes have the same data and flags. Returns the step at which the data's
  // order begins.
  absl::StatusOr<int64_t> AgreeOnOrder(const SampleSource& data);
  // Decodes the batch of the next step and the held-out samples.
  absl::Status DecodeFirstBatches();
  absl::Status BuildCache(const Say& say, const ShowProgress& show);
  int num_devices() const;  // of all processes
  // Returns the local batches that plans may have.
  std::vector<int> LocalBatches() const;
  // Checks that the given profile and cluster fit this run.
  absl::Status CheckBasis();
  absl::Status MeasureBasis(const ShowProgress& show);
  // Uses the saved plans if they fit, and otherwise makes new ones.
  absl::Status FindPlans(const Say& say, const ShowProgress& show);
  // Checks that the batch can be divided, before anything is timed.
  absl::Status CheckBatch() const;
  absl::Status MakePlans(const ShowProgress& show);
  std::map<std::string, std::string> PlanIsFor() const;
  void ChooseSteps();
  absl::Status ReceiveOrders();
  void WarnOfMemory(const Say& say) const;
  // Returns Cancelled once options.setup.should_stop returns true.
  absl::Status CheckNotStopped() const;
  absl::Status Start();
  // Returns the trained parameters' state of this kind, and the other parameters.
  absl::StatusOr<models::NamedTensors> WithUntrained(const std::string& kind) const;

  const TrainerOptions& options_;
  Strategy strategy_;  // the options', unless a partial cache changes it
  std::unique_ptr<TrainingCheckpoints> checkpoints_;  // null if another process leads
  DataOrder order_;  // in other processes only its first step is known
  std::unique_ptr<models::TrainingSetup> setup_;
  std::vector<std::string> grid_prompts_;  // of sample images; empty if another process leads
  TrainingJob job_;
  std::optional<PlanBasis> basis_;
  TrainingPlans plans_;
  int64_t num_steps_ = 0;
  std::unique_ptr<LocalSession> session_;
  // Kept by EndSession.
  std::optional<models::NamedTensors> last_weights_, last_trained_weights_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_TRAINING_RUN_H_
