#include "core/comm/rendezvous/launch/end_hold.h"

#include <unistd.h>

#include <cerrno>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/comm/rendezvous/launch/launched_process.h"

namespace dpipe {
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

EndHold::EndHold() { OfThisProcess().Add(1); }
EndHold::~EndHold() { OfThisProcess().Add(-1); }
bool EndHold::held() { return OfThisProcess().held(); }

}  // namespace dpipe
