// Ranks that are threads of one process: a message is a reference handed over, without a copy. The
// ranks' own threads do the work of collectives while they wait for them or for something else.
#ifndef DPIPE_CORE_COMM_IN_PROCESS_H_
#define DPIPE_CORE_COMM_IN_PROCESS_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "core/base/strong_id.h"
#include "core/base/time.h"
#include "core/comm/communicator.h"

namespace dpipe {

// Observer of the ranks' waits, which shows how much of the time was communication overhead.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;

  // Called when the rank's thread was blocked from `begin_ns` to `end_ns` (MonotonicNow()).
  // `ready_ns`, before or after both, is the earliest time at which it could have continued if
  // communication cost nothing except the collectives' own work:
  // - for a message, when Send was called;
  // - for a sum of doubles, when the last rank arrived;
  // - for a collective, when the last rank had started it, and in a second call when its work was
  //   done.
  //
  // The rest is the transport's overhead, wake-up time included. Called by the rank's thread.
  virtual void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) = 0;
};

struct InProcessOptions {
  // Maximum duration of any one wait.
  absl::Duration deadline = absl::Seconds(120);
  // How long a waiting thread spins before it sleeps, if every rank's thread is pinned to cores
  // that no other rank's thread may use. It yields the core in between. Spinning avoids the wake-up
  // time, which is longest if an idle core must be started first (bench/results/runtime_overhead).
  // The same as the default of OpenMP's threads (KMP_BLOCKTIME): after a longer wait the wake-up
  // time matters little.
  absl::Duration spin = absl::Milliseconds(200);
  bool spin_on_shared_cores = false;  // spin even on shared cores: for tests
  // Yields the core. If this takes long, another thread has used the core.
  void (*yield)() = [] { std::this_thread::yield(); };
  WaitObserver* observer = nullptr;  // outlives the communicators
};

// Returns the communicators of `size` ranks, in rank order. They share one state, which lives as
// long as any of them.
std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_IN_PROCESS_H_
