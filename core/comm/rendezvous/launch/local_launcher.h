// Starts a program several times on this host, as the processes of one job.
//
// Processes find each other by torchrun's variables (see job_address.h). Process 0 inherits the
// open socket that it listens on, so that no other program can take its port. Processes
// authenticate each other with a secret, drawn for this job (job_secret.h) and passed in their
// environment. Their output is printed line by line with a prefix such as "[2] ". SIGINT, SIGTERM
// and SIGHUP are forwarded to all of them. When one fails, the others get a grace period to report
// and exit, which restarts after an ExitHold; then they are killed. No process outlives the
// launcher, however the launcher ends.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LOCAL_LAUNCHER_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LOCAL_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/launch/shaped_network.h"

namespace dpipe {

struct LaunchOptions {
  int num_processes = 1;
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  absl::Duration grace = absl::Seconds(30);  // after the first failure, or after a later hold
  absl::Duration max_hold = kMaxHold;        // after the first failure
  // If set, process i is on host i of this network and has an equal share of the cores, its own if
  // there are enough. Not owned.
  const ShapedNetwork* network = nullptr;
};

// Runs the processes to completion. Returns 0 if all succeed; otherwise the exit code of the first
// that failed, or 128 + the signal's number if a signal ended it. Returns InvalidArgument for more
// processes than MaxLocalProcesses. Call this before creating any thread.
absl::StatusOr<int> LaunchLocalProcesses(const LaunchOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LOCAL_LAUNCHER_H_
