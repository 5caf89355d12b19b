#include "tools/run_logs/training_progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"

namespace dpipe::tools {

namespace {

// Shorter tasks show no progress.
constexpr Nanos kShownAfterNs = 2 * kNanosPerSecond;

}  // namespace

void LongTask::OnProgress(double share_done) {
  absl::MutexLock lock(&mutex_);
  const Nanos elapsed = options_.clock() - start_ns_;
  if (elapsed < kShownAfterNs) return;
  report::ProgressState state;
  state.phase = phase_;
  state.images_per_second = share_done * num_images_ * kNanosPerSecond / elapsed;
  state.fraction_done = share_done;
  progress_.Update(state);
}

void TrainingProgress::OnStart(const RunStart& start) {
  first_step_ = start.first_step;
  num_steps_ = start.num_steps;
  progress_ = std::make_unique<report::Progress>(options_);
}

namespace {

// Returns "gradient norm 0.812 · 41 ms/step · peak 1.2 GiB per device · 38 % of the GPU's peak".
std::string TailText(const StepReport& step) {
  std::vector<std::string> parts;
  if (!(step.grad_norm < 0)) parts.push_back(absl::StrFormat("gradient norm %.3g", step.grad_norm));
  parts.push_back(
      absl::StrCat(FormatDuration(static_cast<Nanos>(step.seconds * kNanosPerSecond)), "/step"));
  if (!step.peak_memory_bytes.empty()) {
    const int64_t most =
        *std::max_element(step.peak_memory_bytes.begin(), step.peak_memory_bytes.end());
    parts.push_back(absl::StrCat("peak ", FormatBytes(most),
                                 step.peak_memory_bytes.size() > 1 ? " per device" : ""));
  }
  if (step.share_of_peak > 0) {
    parts.push_back(absl::StrFormat("%.0f %% of peak speed", 100 * step.share_of_peak));
  }
  return absl::StrJoin(parts, " · ");
}

}  // namespace

void TrainingProgress::OnStep(const StepReport& step) {
  report::ProgressState state;
  state.phase = "training";
  state.detail = absl::StrFormat("epoch %.2f · lr %.2e", step.epoch, step.learning_rate);
  state.tail = TailText(step);
  state.step = static_cast<int>(step.step);
  state.num_steps = static_cast<int>(num_steps_);
  state.images_per_second = step.images_per_second;
  state.loss = step.mean_loss;
  if (std::isnan(step.mean_loss)) state.detail += " · loss nan";  // the progress line omits a NaN
  state.fraction_done = static_cast<double>(step.step - first_step_) /
                        static_cast<double>(std::max<int64_t>(1, num_steps_ - first_step_));
  if (time_limit_ns_ > 0) {
    const double by_time = step.elapsed_s * kNanosPerSecond / static_cast<double>(time_limit_ns_);
    state.fraction_done = std::max(state.fraction_done, std::min(1.0, by_time));
  }
  progress_->Update(state);
}

void TrainingProgress::OnEnd(const RunEnd&) {
  if (progress_ != nullptr) progress_->Finish();
}

}  // namespace dpipe::tools
