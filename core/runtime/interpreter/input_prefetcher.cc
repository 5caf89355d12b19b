#include "core/runtime/interpreter/input_prefetcher.h"

#include <utility>

#include "absl/status/status.h"

namespace dpipe {

InputPrefetcher::InputPrefetcher(InputProvider* inputs, std::shared_ptr<Device> device)
    : inputs_(*inputs), device_(std::move(device)), thread_([this] { Run(); }) {}

InputPrefetcher::~InputPrefetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<Tensor> InputPrefetcher::Load(const std::string& component, const std::string& input,
                                             int64_t step, SampleRange samples,
                                             const std::shared_ptr<Device>& device) {
  const Request request(step, component, input, samples.begin, samples.end);
  absl::StatusOr<Tensor> value = Take(request);
  if (!value.ok()) value = Make(request, device);
  MakeLater({step + 1, component, input, samples.begin, samples.end});
  return value;
}

absl::StatusOr<Tensor> InputPrefetcher::Make(const Request& request,
                                             const std::shared_ptr<Device>& device) {
  const auto& [step, component, input, begin, end] = request;
  return LoadInput(inputs_, component, input, step, {begin, end}, device);
}

// Swallows exceptions: the caller of Load retries, and gets them itself.
absl::StatusOr<Tensor> InputPrefetcher::MakeAhead(const Request& request) {
  try {
    absl::StatusOr<Tensor> made = Make(request, device_);
    DPIPE_RETURN_IF_ERROR(device_->Synchronize());
    return made;
  } catch (...) {
    return absl::InternalError("an exception");
  }
}

absl::StatusOr<Tensor> InputPrefetcher::Take(const Request& request) {
  absl::MutexLock lock(&mutex_);
  const auto found = guesses_.find(request);
  if (found == guesses_.end()) return absl::NotFoundError("not guessed");
  Guess& guess = found->second;
  // The caller creates it sooner than the thread, which has other inputs queued before it.
  if (guess.state == Guess::State::kQueued) {
    guesses_.erase(found);
    return absl::NotFoundError("not begun");
  }
  const auto made = [&guess]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return guess.state == Guess::State::kMade;
  };
  mutex_.Await(absl::Condition(&made));
  return std::move(guesses_.extract(found).mapped().value);
}

void InputPrefetcher::MakeLater(Request request) {
  absl::MutexLock lock(&mutex_);
  // Guesses for steps that are over were wrong: a rank works for one step and the next.
  const int64_t step = std::get<0>(request) - 1;
  for (auto guess = guesses_.begin(); guess != guesses_.end();) {
    const bool is_late = std::get<0>(guess->first) < step - 1;
    const bool is_free = guess->second.state != Guess::State::kBeingMade;
    guess = is_late && is_free ? guesses_.erase(guess) : std::next(guess);
  }
  if (guesses_.emplace(request, Guess()).second) queue_.push_back(std::move(request));
}

// Copies may come from any thread. This thread does no device's work, so it is not bound to one.
void InputPrefetcher::Run() {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const auto wake = [this]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || !queue_.empty(); };
    mutex_.Await(absl::Condition(&wake));
    if (stopping_) return;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    const auto found = guesses_.find(request);
    if (found == guesses_.end() || found->second.state != Guess::State::kQueued) continue;
    Guess& guess = found->second;
    guess.state = Guess::State::kBeingMade;
    mutex_.Unlock();
    absl::StatusOr<Tensor> value = MakeAhead(request);
    mutex_.Lock();
    guess.value = std::move(value);
    guess.state = Guess::State::kMade;
  }
}

}  // namespace dpipe
