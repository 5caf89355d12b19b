#include "core/tensor/team_spin.h"

#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace dpipe {
namespace {

// An idle OpenMP team with one thread more than the process has cores.
class IdleTeam {
 public:
  IdleTeam()
      : thread_([this] {
          omp_set_num_threads(omp_get_num_procs() + 1);
#pragma omp parallel
          {}
          end_.WaitForNotification();
        }) {
  }
  ~IdleTeam() {
    end_.Notify();
    thread_.join();
  }

 private:
  absl::Notification end_;
  std::thread thread_;
};

// The process's idle team, and the number of teams that want it.
struct Limit {
  absl::Mutex mutex;
  int num_wanting ABSL_GUARDED_BY(mutex) = 0;
  std::unique_ptr<IdleTeam> team ABSL_GUARDED_BY(mutex);
};

Limit& ProcessLimit() {
  static auto& limit = *new Limit;
  return limit;
}

void AddWanting(int change) {
  Limit& limit = ProcessLimit();
  absl::MutexLock lock(&limit.mutex);
  limit.num_wanting += change;
  if (limit.num_wanting > 0 && limit.team == nullptr) limit.team = std::make_unique<IdleTeam>();
  if (limit.num_wanting == 0) limit.team.reset();
}

}  // namespace

bool SpinPolicy::Update(Nanos now_ns, double waited_share) {
  if (now_ns < limited_until_ns_) return true;
  if (waited_share < kWanted) return false;
  // Soon after the previous limit, assume the same competing program.
  const bool again = limited_until_ns_ > 0 && now_ns - limited_until_ns_ <= kMinHold;
  hold_ns_ = again ? std::min(2 * hold_ns_, kMaxHold) : kMinHold;
  limited_until_ns_ = now_ns + hold_ns_;
  return true;
}

TeamSpin::TeamSpin() : window_begin_ns_(MonotonicNow()) {
  std::vector<int64_t> ids(omp_get_max_threads(), 0);
#pragma omp parallel
  ids[omp_get_thread_num()] = ::syscall(SYS_gettid);
  for (const int64_t id : ids) {
    auto file = OpenRegularFile(absl::StrCat("/proc/self/task/", id, "/schedstat"));
    if (file.ok()) schedstats_.push_back(*std::move(file));
  }
  waited_ = Waited();
}

TeamSpin::~TeamSpin() {
  if (limits_) AddWanting(-1);
}

std::vector<Nanos> TeamSpin::Waited() const {
  std::vector<Nanos> waited;
  for (const OwnedFd& file : schedstats_) {
    char text[96] = {};
    long long ran = 0, waiting = 0;
    if (::pread(file.get(), text, sizeof(text) - 1, 0) <= 0) return {};
    if (std::sscanf(text, "%lld %lld", &ran, &waiting) != 2) return {};
    waited.push_back(waiting);
  }
  return waited;
}

void TeamSpin::Observe(Nanos now_ns) {
  const Nanos window_ns = now_ns - window_begin_ns_;
  if (window_ns < kWindow) return;
  window_begin_ns_ = now_ns;
  const std::vector<Nanos> before = std::exchange(waited_, Waited());
  if (before.empty() || before.size() != waited_.size()) return;
  Nanos longest = 0;
  for (size_t i = 0; i < before.size(); ++i) longest = std::max(longest, waited_[i] - before[i]);
  const bool limits =
      policy_.Update(now_ns, static_cast<double>(longest) / static_cast<double>(window_ns));
  if (std::exchange(limits_, limits) != limits) AddWanting(limits ? 1 : -1);
}

bool SpinningIsLimited() {
  Limit& limit = ProcessLimit();
  absl::MutexLock lock(&limit.mutex);
  return limit.num_wanting > 0;
}

}  // namespace dpipe
