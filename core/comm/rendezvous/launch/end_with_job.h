// Ends a process when its job fails.
//
// A failure ends every wait for other processes at once. But a process may be computing on its own,
// or be blocked by a disk, and would reach its next wait much later, or never.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_WITH_JOB_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_WITH_JOB_H_

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "core/comm/rendezvous/launch/end_hold.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {

// Long enough for a waiting rank to report what it waits for.
inline constexpr absl::Duration kShutdownGrace = absl::Seconds(10);

class EndWithJob {
 public:
  // While this exists, a failure of the job ends the process `shutdown_grace` later, without
  // cleanup, with exit code 1 and a line on standard error that says why. Time during which there
  // is an EndHold does not count, up to a total of `max_hold`. `store` outlives this.
  explicit EndWithJob(StoreClient* store, absl::Duration shutdown_grace = kShutdownGrace,
                      absl::Duration max_hold = kMaxHold);
  ~EndWithJob();
  EndWithJob(const EndWithJob&) = delete;
  EndWithJob& operator=(const EndWithJob&) = delete;

 private:
  void Loop();

  StoreClient* const store_;
  const absl::Duration shutdown_grace_;
  const absl::Duration max_hold_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_WITH_JOB_H_
