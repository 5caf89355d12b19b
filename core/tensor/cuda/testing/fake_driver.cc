// Settings and counters of the fake driver for tests, and its GPUs and contexts.
#include "core/tensor/cuda/testing/fake_driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::cuda {

FakeDriver::FakeDriver(uint64_t seed)
    : gpus_({{0, "Fake GPU", 9, 0, 132, int64_t{80} << 30, "0000:01:00.0"}}),
      rules_({132, 8, 8}),
      random_(seed, 0, 0, RandomPurpose::kTest) {}

FakeDriver::~FakeDriver() { RunAll(); }

std::vector<std::string> FakeDriver::violations() const {
  absl::MutexLock lock(&mutex_);
  return violations_;
}

int64_t FakeDriver::live_bytes() const {
  absl::MutexLock lock(&mutex_);
  return live_bytes_;
}

int FakeDriver::num_live_handles() const {
  absl::MutexLock lock(&mutex_);
  int live = static_cast<int>(streams_.size() + pinned_.size() + graphs_.size());
  for (const auto& [event, state] : events_) live += state.destroyed ? 0 : 1;
  for (const auto& [pool, state] : pools_) live += state.destroyed ? 0 : 1;
  return live;
}

void FakeDriver::SetNumGpus(int count) {
  gpus_.assign(count, Gpu(gpus_[0]));
  for (int i = 0; i < count; ++i) gpus_[i].index = i;
}

void FakeDriver::set_memory_limit(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  memory_limit_ = bytes;
}

void FakeDriver::set_queue_limit(size_t count) {
  absl::MutexLock lock(&mutex_);
  queue_limit_ = count;
}

void FakeDriver::HideMemory() {
  absl::MutexLock lock(&mutex_);
  if (hidden_ == nullptr) hidden_ = std::make_unique<HiddenMemory>();
}

void FakeDriver::FailNext(const std::string& call) {
  absl::MutexLock lock(&mutex_);
  fail_next_ = call;
}

void FakeDriver::Break(const std::string& error) {
  std::vector<std::deque<Work>> dropped;  // destroyed after unlocking: it may hold tensors
  absl::MutexLock lock(&mutex_);
  broken_ = absl::InternalError(error);
  for (auto& [stream, queue] : streams_) dropped.push_back(std::exchange(queue, {}));
  changed_.SignalAll();
}

int64_t FakeDriver::num_calls(const std::string& call) const {
  absl::MutexLock lock(&mutex_);
  const auto it = num_calls_.find(call);
  return it == num_calls_.end() ? 0 : it->second;
}

absl::Status FakeDriver::Failure(const std::string& call) {
  ++num_calls_[call];
  if (!broken_.ok()) {
    return absl::Status(broken_.code(), absl::StrCat(call, ": ", broken_.message()));
  }
  if (fail_next_ != call) return absl::OkStatus();
  fail_next_.clear();
  return absl::InternalError(call + ": injected failure");
}

absl::StatusOr<std::vector<Gpu>> FakeDriver::Gpus() {
  if (gpus_.empty()) return absl::FailedPreconditionError("no GPU: the fake driver has none");
  return gpus_;
}

absl::StatusOr<int> FakeDriver::NumShares(int gpu, int multiprocessors) {
  return rules_.total / multiprocessors - lost_shares;
}

absl::StatusOr<std::vector<Context>> FakeDriver::Divide(int gpu, int count, int multiprocessors) {
  DPIPE_CHECK(multiprocessors % rules_.multiple_of == 0 && multiprocessors >= rules_.least &&
              count * multiprocessors <= rules_.total);
  absl::MutexLock lock(&mutex_);
  std::vector<Context> contexts;
  for (int i = 0; i < count; ++i) contexts.push_back({gpu, multiprocessors, NewHandle<void*>()});
  return contexts;
}

absl::Status FakeDriver::MakeCurrent(const Context& context) {
  absl::MutexLock lock(&mutex_);
  Tell(contexts_.MakeCurrent(context));
  return absl::OkStatus();
}

void FakeDriver::Within(const Context& context, const std::function<void()>& work) {
  contexts_.Within(context, work);
}

void FakeDriver::Tell(const std::string& wrong) {
  if (!wrong.empty()) violations_.push_back(wrong);
}

}  // namespace dpipe::cuda
