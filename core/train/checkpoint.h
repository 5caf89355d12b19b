// A training run at the end of a step: all that another process needs to go on as if nothing had
// happened.
//
// What has a name does not say where it lay: tensors are whole, by parameter, whatever the stages,
// ranks and shards were. Randomness is counter-based, so that the seed and the step are all of its
// state; the position in the data is a function of (seed, order, step x global batch). README.md
// says how a checkpoint lies on the disk.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/runtime/local_session.h"

namespace dpipe {

// The order of the samples that a run has (data/step_order.h): its own from the beginning, until it
// goes on with other data.
struct DataOrder {
  int64_t first_step = 0;    // at which it began
  double epochs_before = 0;  // passes over the data before this step

  // Times that data has been seen after `steps` >= first_step steps.
  double EpochsAt(int64_t steps, int64_t global_batch, int64_t dataset_size) const {
    return epochs_before + static_cast<double>(steps - first_step) * global_batch / dataset_size;
  }
};

// Everything but tensors.
struct CheckpointInfo {
  int64_t step = 0;  // steps done: the next one is this, counted from 0
  // Of the optimizer: none in a step that was skipped, several in one of some plans.
  int64_t num_updates = 0;
  int64_t num_steps = 0;  // of the whole run, which the learning rate's schedule counts on
  uint64_t seed = 0;
  int64_t global_batch = 0;
  int64_t dataset_size = 0;      // samples of an epoch; 0: not known
  std::string data_fingerprint;  // SampleSource::fingerprint; empty: saved by an earlier version
  DataOrder order;
  double learning_rate = 0;  // of the next step, for who reads the file
  Nanos training_ns = 0;     // in steps, over all processes that had a part in the run
  // The running mean of the loss: see RunningMean.
  double loss_sum = 0;
  double loss_weight = 0;
  int64_t skipped_steps = 0;
  // The configuration, field by field: what a run that goes on is compared with.
  std::map<std::string, std::string> config;
  // What the plan was made for: while it stays the same, so does the plan.
  std::map<std::string, std::string> plan_for;

  // Where the next step begins in the order: position of its first sample in epoch `epoch`.
  int64_t epoch() const { return dataset_size > 0 ? position() / dataset_size : 0; }
  int64_t epoch_position() const {
    return dataset_size > 0 ? position() % dataset_size : position();
  }
  int64_t position() const { return (step - order.first_step) * global_batch; }
};

// JSON for a person and for ParseCheckpointInfo; every number comes back as it was.
std::string CheckpointInfoText(const CheckpointInfo& info);
// InvalidArgument names the field that is missing or wrong.
absl::StatusOr<CheckpointInfo> ParseCheckpointInfo(const std::string& text);

struct CheckpointContent {
  CheckpointInfo info;
  SessionState state;
  std::map<std::string, std::string> texts;  // other files: "config.textproto", "plan.textproto"
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_H_
