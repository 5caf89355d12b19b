#include "core/runtime/session/step_clock.h"

#include <algorithm>
#include <utility>

namespace dpipe {

StepClock::StepClock(int64_t first_step, int num_steps, int num_ranks, int num_backbones,
                     int global_batch, Nanos now_ns,
                     const std::function<void(const StepResult&)>& on_step)
    : first_step_(first_step),
      num_ranks_(num_ranks),
      on_step_(on_step),
      last_end_ns_(now_ns),
      steps_(num_steps),
      starts_({last_end_ns_}) {
  for (Pending& step : steps_) {
    step.losses.assign(num_backbones, std::vector<float>(global_batch, 0.0f));
    step.peak_bytes.assign(num_ranks, 0);
  }
  if (on_step_) reporter_ = std::thread([this] { ReportSteps(); });
}

StepClock::~StepClock() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (reporter_.joinable()) reporter_.join();
}

void StepClock::ReportSteps() {
  while (true) {
    StepResult result;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](StepClock* self) ABSL_NO_THREAD_SAFETY_ANALYSIS {
            return self->stopping_ || self->num_reported_ < self->results_.size();
          },
          this));
      if (num_reported_ == results_.size()) return;
      result = results_[num_reported_++];
    }
    on_step_(result);
  }
}

void StepClock::RankDone(int64_t step, const std::vector<StepLosses>& losses,
                         const StepOutcome& outcome, const RankPeak& memory, Nanos now_ns) {
  absl::MutexLock lock(&mutex_);
  Pending& pending = steps_[step - first_step_];
  for (const StepLosses& part : losses) {
    std::copy(part.losses.begin(), part.losses.end(),
              pending.losses[part.backbone].begin() + part.samples.begin);
  }
  pending.peak_bytes[memory.rank.value()] = memory.peak_bytes;
  pending.end_ns = std::max(pending.end_ns, now_ns);
  if (++pending.ranks_done < num_ranks_) return;
  StepResult result;
  result.step = step;
  result.sample_losses = std::move(pending.losses);
  for (const std::vector<float>& of_backbone : result.sample_losses) {
    double sum = 0;
    for (float loss : of_backbone) sum += loss;
    result.backbone_losses.push_back(sum / of_backbone.size());
    result.loss += result.backbone_losses.back();
  }
  result.grad_norm = outcome.global_norm;
  result.applied = outcome.applied;
  result.peak_memory_bytes = std::move(pending.peak_bytes);
  result.duration_ns = pending.end_ns - last_end_ns_;
  last_end_ns_ = pending.end_ns;
  starts_.push_back(pending.end_ns);
  results_.push_back(std::move(result));
}

void StepClock::Restart(Nanos now_ns) {
  absl::MutexLock lock(&mutex_);
  starts_[0] = last_end_ns_ = now_ns;
}

std::vector<StepResult> StepClock::results() const {
  absl::MutexLock lock(&mutex_);
  return results_;
}

std::vector<Nanos> StepClock::step_starts() const {
  absl::MutexLock lock(&mutex_);
  return starts_;
}

}  // namespace dpipe
