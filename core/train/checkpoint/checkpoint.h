// A training run at the end of a step: everything that another process needs to continue as if
// nothing had happened.
//
// The content does not depend on the placement: tensors are whole, by parameter, for any stages,
// ranks and shards. Randomness is counter-based, so its state is only the seed and the step. The
// position in the data is a function of (seed, order, step x global batch). README.md describes the
// format on disk.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/runtime/session/local_session.h"

namespace dpipe {

// The order of a run's samples (data/order/step_order.h). A run has one from the beginning, and
// gets a new one if it continues with other data.
struct DataOrder {
  int64_t first_step = 0;    // at which it began
  double epochs_before = 0;  // passes over the data before this step

  // Returns the passes over the data after `steps` >= first_step steps.
  double EpochsAt(int64_t steps, int64_t global_batch, int64_t dataset_size) const {
    return epochs_before + static_cast<double>(steps - first_step) * global_batch / dataset_size;
  }
};

// All content except tensors.
struct CheckpointInfo {
  int64_t step = 0;  // steps done; equals the next step, counted from 0
  // Of the optimizer: zero in a skipped step, several per step in some plans.
  int64_t num_updates = 0;
  int64_t num_steps = 0;  // of the whole run, for the learning rate's schedule
  uint64_t seed = 0;
  int64_t global_batch = 0;
  int64_t dataset_size = 0;      // samples per epoch; 0: unknown
  std::string data_fingerprint;  // SampleSource::fingerprint; empty: saved by an earlier version
  DataOrder order;
  double learning_rate = 0;  // of the next step, for information only
  Nanos training_ns = 0;     // in steps, over all processes that took part in the run
  // The running mean of the loss: see RunningMean.
  double loss_sum = 0;
  double loss_weight = 0;
  int64_t skipped_steps = 0;
  // The configuration, field by field, with which that of a resumed run is compared.
  std::map<std::string, std::string> config;
  // The inputs of planning: while they stay the same, so does the plan.
  std::map<std::string, std::string> plan_for;

  // Return the position of the next step in the order: its first sample is at `epoch_position` of
  // `epoch`.
  int64_t epoch() const { return dataset_size > 0 ? position() / dataset_size : 0; }
  int64_t epoch_position() const {
    return dataset_size > 0 ? position() % dataset_size : position();
  }
  int64_t position() const { return (step - order.first_step) * global_batch; }
};

// Returns human-readable JSON for ParseCheckpointInfo; every number round-trips exactly.
std::string CheckpointInfoText(const CheckpointInfo& info);
// Returns InvalidArgument with the field that is missing or wrong.
absl::StatusOr<CheckpointInfo> ParseCheckpointInfo(const std::string& text);

struct CheckpointContent {
  CheckpointInfo info;
  SessionState state;
  std::map<std::string, std::string> texts;  // other files: "config.textproto", "plan.textproto"
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_H_
