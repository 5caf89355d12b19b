// A training run's checkpoints: where it goes on from, and what it leaves.
#ifndef DPIPE_TOOLS_TRAINING_CHECKPOINTS_H_
#define DPIPE_TOOLS_TRAINING_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/runtime/local_session.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_folder.h"
#include "core/train/checkpoint_saver.h"
#include "core/train/config_match.h"

namespace dpipe::tools {

struct CheckpointOptions {
  std::string folder;
  int64_t every = 0;  // steps; 0: only where the run ends or somebody asks for it
  CheckpointRetention retention;
  bool in_background = true;  // where there is memory for a copy of the state
  // "": begin, but not where an unfinished run would be lost; "auto": go on where there is
  // something to go on from, else begin; "never": begin, and set aside what is there; else the
  // folder of a checkpoint, to go on from that one.
  std::string resume;
  bool plan_anew = false;            // although the saved plan would do
  bool allow_config_change = false;  // of fields that change the numbers: see ConfigPolicy
  bool allow_data_change = false;    // of the data, whose order then starts over
  ConfigFields defaults;             // of fields that a checkpoint of an earlier version has not
  bool read_only = false;            // only finds out what to go on from, and changes nothing
  bool stop_on_error = false;        // when a checkpoint cannot be written: else it goes on without
};

// What may be different when a run goes on: nothing of the model and of what is drawn; which data
// there is, what is learnt and how fast if asked for; the rest as one likes.
FieldPolicy ConfigPolicy(const std::string& field);

// What steps run by.
struct TrainingPlans {
  Plan plan;
  Plan self_conditioned;  // of the steps that run backbones twice; empty where none do

  const Plan* self_conditioned_or_null() const {
    return self_conditioned.devices_size() > 0 ? &self_conditioned : nullptr;
  }
};

// Used by one thread, between steps.
class TrainingCheckpoints {
 public:
  using Say = std::function<void(const std::string& line)>;

  // Takes the folder, finds out what to go on from, and checks that it belongs to this
  // configuration; nothing is changed yet: `config` field by field, and as text for a person.
  // FailedPrecondition names the fields that do not match, or the run that would be lost.
  static absl::StatusOr<std::unique_ptr<TrainingCheckpoints>> Open(const CheckpointOptions& options,
                                                                   const ConfigFields& config,
                                                                   const std::string& config_text,
                                                                   const Say& say);

  // From now on lines go there.
  void SayTo(const Say& say) { say_ = say; }

  // Whether the run goes on where its checkpoint lies; else what is there is another run's.
  bool goes_on_here() const { return goes_on_here_; }
  // Before the first step of a run that goes on here: sets checkpoints of later steps aside, and
  // says so.
  absl::Status SetLaterAside();
  CheckpointFolder* folder() { return folder_.get(); }
  const CheckpointFolder* folder() const { return folder_.get(); }

  // Null where the run begins.
  const CheckpointInfo* resumed() const { return resumed_.has_value() ? &*resumed_ : nullptr; }
  // The saved plans, if they were made for the same; else says what is different, or that new ones
  // were asked for.
  absl::StatusOr<std::optional<TrainingPlans>> SavedPlans(
      const std::map<std::string, std::string>& plan_for);
  // The order that the samples have from now on: the one from the first step on where the run
  // begins. A run that goes on keeps its order if the data set still has as many samples, and the
  // same ones by their fingerprint (SampleSource::fingerprint), as far as the checkpoint has it.
  // Otherwise, with allow_data_change, a new order begins at the step that the run goes on from,
  // which is said. With allow_config_change as many samples that are others keep the order.
  // FailedPrecondition says which flags go on.
  absl::StatusOr<DataOrder> OrderFor(int64_t size, const std::string& fingerprint) const;
  // Puts the saved state into a session that begins at the saved step, and lets go of the files:
  // what is removed later would else go on taking its place on the disk.
  absl::Status Restore(LocalSession* session);

  // `info` without the step, the updates and the configuration, which are filled in. A file that
  // cannot be written is an error or a line to `say`, as the options want it; after the run's last
  // step (`is_last`) it is an error.
  absl::Status Save(const LocalSession& session, const TrainingPlans& plans, CheckpointInfo info,
                    bool is_last);
  // Until what was saved is on the disk, else its error; says where the last one is that is, and
  // how long training had to wait.
  absl::Status Finish();

  // After Finish, for a file of `bytes` that counts more than all checkpoints: removes them, the
  // oldest first, until `free_bytes` says that there is room. Removes none if that would not make
  // enough, or if it is not known. Returns whether there is room now that was not there before.
  bool MakeRoom(int64_t bytes, const std::function<std::optional<int64_t>()>& free_bytes);

  const CheckpointOptions& options() const { return options_; }

 private:
  TrainingCheckpoints(const CheckpointOptions& options, const ConfigFields& config,
                      const std::string& config_text, const Say& say)
      : options_(options), config_(config), config_text_(config_text), say_(say) {}
  absl::Status Choose();
  absl::Status CheckConfig() const;
  // "--model=OUT --init=checkpoint", for the run that the checkpoint belongs to.
  std::string FlagsOfNewRun() const;
  absl::Status Tolerate(const absl::Status& status) const;
  // Adds to the error of the last save what can be done.
  absl::Status WithWayOn(const absl::Status& status) const;
  // Waits for the save that is under way.
  absl::Status Settle();
  // Beside the state and a copy of it. Says so where there is not, if there was.
  bool HasRoomForCopy(const SessionState& state);

  const CheckpointOptions options_;
  const ConfigFields config_;
  const std::string config_text_;
  Say say_;
  std::unique_ptr<CheckpointFolder> folder_;
  std::optional<CheckpointInfo> resumed_;
  bool goes_on_here_ = false;
  std::unique_ptr<Checkpoint> checkpoint_;  // until its state has been restored
  std::unique_ptr<CheckpointSaver> saver_;  // after folder_, which it uses
  int64_t last_asked_step_ = -1;            // whose save is under way or done
  bool had_room_ = true;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_CHECKPOINTS_H_
