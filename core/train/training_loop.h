// Runs training steps until there is a reason to stop, with pauses for work that must not overlap a
// step: saving, sampling.
//
// A session is run in pieces of about `run_length_ns`, so that a pause, a time limit and a request
// to stop take effect soon. No work is lost between pieces: inputs prepared for the next step are
// kept. Numbers do not depend on the boundaries of pieces.
#ifndef DPIPE_CORE_TRAIN_TRAINING_LOOP_H_
#define DPIPE_CORE_TRAIN_TRAINING_LOOP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/runtime/session/local_session.h"

namespace dpipe {

struct TrainingLoopOptions {
  int64_t num_steps = 0;    // at least 1
  int64_t first_step = 0;   // completed steps of a continued run; included in num_steps
  Nanos time_limit_ns = 0;  // for the whole loop, including pauses; 0: none

  // `action` is called with the number of completed steps after every `every_steps` steps, except
  // the last. Its error ends the loop.
  struct Pause {
    int64_t every_steps = 0;
    std::function<absl::Status(int64_t steps_done)> action;
  };
  std::vector<Pause> pauses;

  std::function<void(const StepResult&)> on_step;  // see LocalSession::Run
  std::function<bool()> should_stop;               // called between pieces; may be empty
  // Called between pieces, after the pauses and before should_stop; may be empty. Its error ends
  // the loop.
  std::function<absl::Status(int64_t steps_done)> after_piece;
  Nanos run_length_ns = kNanosPerSecond;
  std::function<Nanos()> clock = MonotonicNow;
};

enum class StopReason { kAllSteps, kTimeLimit, kRequested };

struct TrainingLoopResult {
  int64_t steps_done = 0;  // including those before first_step
  StopReason reason = StopReason::kAllSteps;
  Nanos training_ns = 0;  // in steps, excluding pauses
};

// LocalSession::Run without the trace.
using RunStepsFn = std::function<absl::StatusOr<RunResult>(
    int count, bool is_last, const std::function<void(const StepResult&)>& on_step)>;

// Returns InvalidArgument if num_steps is not above first_step, or a pause's every_steps is not
// positive.
absl::StatusOr<TrainingLoopResult> RunTrainingLoop(const TrainingLoopOptions& options,
                                                   const RunStepsFn& run_steps);
absl::StatusOr<TrainingLoopResult> RunTrainingLoop(const TrainingLoopOptions& options,
                                                   LocalSession* session);

// Requests to a run, as files that a user or a scheduler creates in its folder:
//   touch out/train/SAVE_NOW      save a checkpoint and continue
//   touch out/train/STOP          save a checkpoint and end

inline constexpr char kSaveNowFile[] = "SAVE_NOW";
inline constexpr char kStopFile[] = "STOP";

// True if the file exists. Removes it, so that a request is executed once. A file that cannot be
// removed is ignored: the request would be repeated forever.
bool TakeSignalFile(const std::string& folder, const char* name);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_TRAINING_LOOP_H_
