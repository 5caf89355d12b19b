#include "core/train/training_loop.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dpipe {

namespace {

absl::Status CheckOptions(const TrainingLoopOptions& options) {
  if (options.num_steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the number of steps is ", options.num_steps, "; it must be at least 1"));
  }
  if (options.first_step < 0 || options.first_step >= options.num_steps) {
    return absl::InvalidArgumentError(absl::StrCat("the next step is ", options.first_step,
                                                   ", but the run has only ", options.num_steps,
                                                   " steps"));
  }
  for (const TrainingLoopOptions::Pause& pause : options.pauses) {
    if (pause.every_steps < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("a pause every ", pause.every_steps, " steps: must be at least 1"));
    }
  }
  return absl::OkStatus();
}

class Loop {
 public:
  Loop(const TrainingLoopOptions& options, const RunStepsFn& run_steps)
      : options_(options), run_steps_(run_steps), start_ns_(options.clock()) {
    result_.steps_done = options.first_step;
  }

  absl::StatusOr<TrainingLoopResult> Run() {
    while (result_.steps_done < options_.num_steps) {
      DPIPE_RETURN_IF_ERROR(RunPiece());
      if (result_.steps_done == options_.num_steps) break;
      DPIPE_RETURN_IF_ERROR(Pause());
      if (options_.after_piece) DPIPE_RETURN_IF_ERROR(options_.after_piece(result_.steps_done));
      if (options_.should_stop && options_.should_stop()) return Stop(StopReason::kRequested);
      if (TimeLeft() == 0) return Stop(StopReason::kTimeLimit);
    }
    return Stop(StopReason::kAllSteps);
  }

 private:
  absl::Status RunPiece() {
    const int64_t count = NextCount();
    const bool is_last = result_.steps_done + count == options_.num_steps;
    const Nanos start = options_.clock();
    DPIPE_RETURN_IF_ERROR(run_steps_(static_cast<int>(count), is_last, options_.on_step).status());
    const Nanos duration = options_.clock() - start;
    result_.training_ns += duration;
    // The first step takes longer than others: it prepares its own inputs, and compiles kernels.
    step_ns_ = std::max<Nanos>(1, duration / count);
    result_.steps_done += count;
    return absl::OkStatus();
  }

  // Returns the number of steps that fill a piece, limited by the next pause, the end and the time
  // limit.
  int64_t NextCount() const {
    const Nanos length = std::min(options_.run_length_ns, TimeLeft());
    int64_t count = step_ns_ == 0 ? 1 : std::max<int64_t>(1, length / step_ns_);
    count = std::min(count, options_.num_steps - result_.steps_done);
    for (const TrainingLoopOptions::Pause& pause : options_.pauses) {
      count = std::min(count, pause.every_steps - result_.steps_done % pause.every_steps);
    }
    return std::min<int64_t>(count, 1 << 20);
  }

  absl::Status Pause() {
    for (const TrainingLoopOptions::Pause& pause : options_.pauses) {
      if (result_.steps_done % pause.every_steps != 0) continue;
      DPIPE_RETURN_IF_ERROR(pause.action(result_.steps_done));
    }
    return absl::OkStatus();
  }

  Nanos TimeLeft() const {
    if (options_.time_limit_ns <= 0) return options_.run_length_ns;
    return std::max<Nanos>(0, options_.time_limit_ns - (options_.clock() - start_ns_));
  }

  TrainingLoopResult Stop(StopReason reason) {
    result_.reason = reason;
    return result_;
  }

  const TrainingLoopOptions& options_;
  const RunStepsFn& run_steps_;
  const Nanos start_ns_;
  Nanos step_ns_ = 0;  // of the last piece; 0: unknown
  TrainingLoopResult result_;
};

}  // namespace

absl::StatusOr<TrainingLoopResult> RunTrainingLoop(const TrainingLoopOptions& options,
                                                   const RunStepsFn& run_steps) {
  DPIPE_RETURN_IF_ERROR(CheckOptions(options));
  return Loop(options, run_steps).Run();
}

absl::StatusOr<TrainingLoopResult> RunTrainingLoop(const TrainingLoopOptions& options,
                                                   LocalSession* session) {
  return RunTrainingLoop(options, [session](int count, bool is_last, const auto& on_step) {
    return session->Run(count, is_last, /*record=*/false, on_step);
  });
}

bool TakeSignalFile(const std::string& folder, const char* name) {
  return ::unlink((folder + "/" + name).c_str()) == 0;
}

}  // namespace dpipe
