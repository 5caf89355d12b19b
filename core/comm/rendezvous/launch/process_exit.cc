#include "core/comm/rendezvous/launch/process_exit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/comm/rendezvous/store/store_frame.h"

namespace dpipe {

namespace {

std::optional<int> NumberIn(const char* variable) {
  const char* text = std::getenv(variable);
  int number = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

}  // namespace

// A program started by a process of the job inherits the variable too, but has another parent.
bool StartedByLauncher() { return NumberIn(kLauncherVariable) == getppid(); }

std::optional<int> InheritedListener() {
  const std::optional<int> fd = NumberIn(kListenerVariable);
  if (fd.has_value()) unsetenv(kListenerVariable);  // not inherited by child programs
  return fd;
}

std::optional<int> InheritedHoldPipe() {
  const std::optional<int> fd = NumberIn(kHoldVariable);
  if (!fd.has_value() || !StartedByLauncher()) return std::nullopt;
  fcntl(*fd, F_SETFD, FD_CLOEXEC);  // not inherited by child programs
  return fd;
}

namespace {

// Counts holds, and writes to a pipe when the first one begins and when the last one ends.
class Holds {
 public:
  void Add(int change) {
    absl::MutexLock lock(&mutex_);
    const bool before = count_ > 0;
    count_ += change;
    if ((count_ > 0) != before) Tell(count_ > 0 ? '1' : '0');
  }
  bool held() {
    absl::MutexLock lock(&mutex_);
    return count_ > 0;
  }

 private:
  void Tell(char state) {
    if (fd_ < 0) return;
    while (write(fd_, &state, 1) < 0 && errno == EINTR) {
    }
  }

  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  const int fd_ = InheritedHoldPipe().value_or(-1);
};

Holds& OfThisProcess() {
  static auto* const holds = new Holds();
  return *holds;
}

}  // namespace

ExitHold::ExitHold() { OfThisProcess().Add(1); }
ExitHold::~ExitHold() { OfThisProcess().Add(-1); }
bool ExitHold::held() { return OfThisProcess().held(); }

ExitWithJob::ExitWithJob(StoreClient* store, absl::Duration shutdown_grace, absl::Duration max_hold)
    : store_(store), shutdown_grace_(shutdown_grace), max_hold_(max_hold) {
  thread_ = std::thread([this] { Loop(); });
}

ExitWithJob::~ExitWithJob() {
  stopping_ = true;
  thread_.join();
}

void ExitWithJob::Loop() {
  RunningClock clock = HeartbeatClock();
  absl::Duration failed_for, held_for;
  while (!stopping_) {
    if (!store_->AwaitFailure(kHeartbeatTick)) {
      clock.Lap();
      continue;
    }
    absl::SleepFor(kHeartbeatTick);
    const absl::Duration lap = clock.Lap();
    const bool waits = held_for < max_hold_ && ExitHold::held();
    (waits ? held_for : failed_for) += lap;
    if (failed_for < shutdown_grace_) continue;
    const std::string line =
        absl::StrCat(store_->NameOf(store_->process()), ": ", store_->failure().message(),
                     "; this process was still running ", absl::FormatDuration(shutdown_grace_),
                     " later and is being terminated\n");
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    _exit(1);
  }
}

}  // namespace dpipe
