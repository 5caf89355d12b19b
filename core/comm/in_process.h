// Ranks that are threads of one process: a message is a reference handed over, without a copy. The
// ranks' own threads do the work of collectives while they wait for them or for something else.
#ifndef DPIPE_CORE_COMM_IN_PROCESS_H_
#define DPIPE_CORE_COMM_IN_PROCESS_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "core/comm/communicator.h"
#include "core/comm/wait_observer.h"

namespace dpipe {

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
