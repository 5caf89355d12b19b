#include "core/comm/rendezvous/launch/end_with_job.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/comm/rendezvous/store/heartbeat.h"

namespace dpipe {

EndWithJob::EndWithJob(StoreClient* store, absl::Duration shutdown_grace, absl::Duration max_hold)
    : store_(store), shutdown_grace_(shutdown_grace), max_hold_(max_hold) {
  thread_ = std::thread([this] { Loop(); });
}

EndWithJob::~EndWithJob() {
  stopping_ = true;
  thread_.join();
}

void EndWithJob::Loop() {
  RunningClock clock = HeartbeatClock();
  absl::Duration failed_for, held_for;
  while (!stopping_) {
    if (!store_->AwaitFailure(kHeartbeatTick)) {
      clock.Lap();
      continue;
    }
    absl::SleepFor(kHeartbeatTick);
    const absl::Duration lap = clock.Lap();
    const bool waits = held_for < max_hold_ && EndHold::held();
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
