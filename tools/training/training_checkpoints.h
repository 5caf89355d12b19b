// A training run's checkpoints: chooses the one to resume from, and saves new ones.
#ifndef DPIPE_TOOLS_TRAINING_TRAINING_CHECKPOINTS_H_
#define DPIPE_TOOLS_TRAINING_TRAINING_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/runtime/session/local_session.h"
#include "core/train/checkpoint/checkpoint.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/checkpoint_saver.h"
#include "core/train/checkpoint/config_match.h"

namespace dpipe::tools {

struct CheckpointOptions {
  std::string folder;
  int64_t every = 0;  // steps; 0: only at the end of the run or on request
  CheckpointRetention retention;
  bool in_background = true;  // if there is memory for a copy of the state
  // What to resume from. "": start from the beginning, but fail if that would lose an unfinished
  // run; "auto": resume if there is a checkpoint, else start; "never": start, and set existing
  // checkpoints aside; any other value: the folder of the checkpoint to resume from.
  std::string resume;
  bool replan = false;               // even if the saved plan could be used
  bool allow_config_change = false;  // of fields that change the numbers: see ConfigPolicy
  bool allow_data_change = false;    // of the data, which then starts a new order
  ConfigFields defaults;             // of fields that a checkpoint of an earlier version lacks
  bool read_only = false;            // only chooses the checkpoint to resume from; changes nothing
  bool stop_on_error = false;  // if a checkpoint cannot be written; if false, training continues
};

// Returns how a field may change when a run resumes. Fields of the model and of random draws may
// not. The data set, and what is learnt and how fast, may change on request. All other fields may
// change freely.
FieldPolicy ConfigPolicy(const std::string& field);

// The plans that steps are run by.
struct TrainingPlans {
  Plan plan;
  Plan self_conditioned;  // for steps that run backbones twice; empty if there are none

  const Plan* self_conditioned_or_null() const {
    return self_conditioned.devices_size() > 0 ? &self_conditioned : nullptr;
  }
};

// Used by one thread, between steps.
class TrainingCheckpoints {
 public:
  using Say = std::function<void(const std::string& line)>;

  // Opens the folder, chooses the checkpoint to resume from, and checks that it matches `config`,
  // which has all fields by path (`config_text`: the same for people). Sets nothing aside yet.
  // Returns FailedPrecondition with the fields that do not match, or with the run that would be
  // lost.
  static absl::StatusOr<std::unique_ptr<TrainingCheckpoints>> Open(const CheckpointOptions& options,
                                                                   const ConfigFields& config,
                                                                   const std::string& config_text,
                                                                   const Say& say);

  // Redirects further messages to `say`.
  void SetSay(const Say& say) { say_ = say; }

  // True if the run resumes from a checkpoint in its own folder. If not, the files there belong to
  // another run.
  bool resumes_here() const { return resumes_here_; }
  // Sets checkpoints of later steps aside, and says so. Call it before the first step of a run with
  // resumes_here().
  absl::Status SetLaterAside();
  CheckpointFolder* folder() { return folder_.get(); }
  const CheckpointFolder* folder() const { return folder_.get(); }

  // Null if the run starts from the beginning.
  const CheckpointInfo* resumed() const { return resumed_.has_value() ? &*resumed_ : nullptr; }
  // Returns the saved plans if they were made for the same `plan_for`. If not, or if new plans were
  // asked for, says why and returns nullopt.
  absl::StatusOr<std::optional<TrainingPlans>> SavedPlans(
      const std::map<std::string, std::string>& plan_for);
  // Returns the order of the samples:
  // - A new run starts one at step 0.
  // - A resumed run keeps its order if the data set has the same size and the same fingerprint
  //   (SampleSource::fingerprint), if the checkpoint has one.
  // - Otherwise, with allow_data_change, a new order starts at the resumed step; a message says so.
  // - If only the fingerprint differs, allow_config_change keeps the order.
  // Otherwise returns FailedPrecondition with the flags that allow the change.
  absl::StatusOr<DataOrder> OrderFor(int64_t size, const std::string& fingerprint) const;
  // Restores the saved state into a session that begins at the saved step. Then closes the files,
  // because removed files keep taking disk space while they are open.
  absl::Status Restore(LocalSession* session);

  // Saves a checkpoint. Fills in the step, the updates and the configuration of `info`. If a file
  // cannot be written, returns an error or passes a warning to `say`, depending on the options;
  // after the run's last step (`is_last`) it is always an error.
  absl::Status Save(const LocalSession& session, const TrainingPlans& plans, CheckpointInfo info,
                    bool is_last);
  // Waits until the last save is on disk, and returns its error if it failed. Says which saved
  // checkpoint is the last, and how long training waited for saves.
  absl::Status Finish();

  // Makes room for a file of `bytes` that is worth more than all checkpoints. Removes the oldest
  // checkpoints until `free_bytes` says that there is room. Removes none if that would not be
  // enough, or if the free space is unknown. Returns true if it made room. Call it after Finish.
  bool MakeRoom(int64_t bytes, const std::function<std::optional<int64_t>()>& free_bytes);

  const CheckpointOptions& options() const { return options_; }

 private:
  TrainingCheckpoints(const CheckpointOptions& options, const ConfigFields& config,
                      const std::string& config_text, const Say& say)
      : options_(options), config_(config), config_text_(config_text), say_(say) {}
  absl::Status Choose();
  absl::Status CheckConfig() const;
  // Returns "--model=OUT --init=checkpoint" for the run that the checkpoint belongs to.
  std::string FlagsOfNewRun() const;
  absl::Status Tolerate(const absl::Status& status) const;
  // Adds the remedy to an error of the last save.
  absl::Status WithRemedy(const absl::Status& status) const;
  // Waits for the save in progress.
  absl::Status Settle();
  // True if there is memory for a copy of the state beside the state itself. Says so when there is
  // no longer enough.
  bool HasRoomForCopy(const SessionState& state);

  const CheckpointOptions options_;
  const ConfigFields config_;
  const std::string config_text_;
  Say say_;
  std::unique_ptr<CheckpointFolder> folder_;
  std::optional<CheckpointInfo> resumed_;
  bool resumes_here_ = false;
  std::unique_ptr<Checkpoint> checkpoint_;  // null once its state has been restored
  std::unique_ptr<CheckpointSaver> saver_;  // must follow folder_, which it uses
  int64_t last_save_step_ = -1;             // step of the last save, in progress or done
  bool had_room_ = true;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_TRAINING_CHECKPOINTS_H_
