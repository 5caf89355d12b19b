// Ranks that are threads of one process: a message is a reference handed over, without a copy.
// Collectives are done by the ranks' own threads while they wait: for them, or for something else.
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
  // Longest that any one wait may take.
  absl::Duration deadline = absl::Seconds(120);
  // Where every rank's thread is pinned to cores that no other rank's thread may use, one that
  // waits looks again and again for so long before it sleeps, and lets others have the core in
  // between: being woken up takes time, above all where an idle core has to be started first
  // (bench/results/runtime_overhead). As long as OpenMP's threads do by default (KMP_BLOCKTIME):
  // longer waits are worth being woken from.
  absl::Duration look = absl::Milliseconds(200);
  bool look_on_shared_cores = false;  // too: for tests
  // Lets others have the core; where that takes long, one of them has used it.
  void (*yield)() = [] { std::this_thread::yield(); };
  WaitObserver* observer = nullptr;  // outlives the communicators
};

// The communicators of `size` ranks, in rank order. They share one state, which lives as long as
// any of them.
std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_IN_PROCESS_H_
