// Starts a program several times on this host, as the processes of one job.
//
// They find each other by torchrun's variables (see job_address.h); process 0 gets the socket that
// it listens on already open, so that no other program can take its port. They recognise each other
// by a secret that is drawn for this job (job_secret.h), in their environment. What they print
// comes out line by line with "[2] " before it. SIGINT, SIGTERM and SIGHUP are handed on to all of
// them. When one fails, the others get some time to report why and to end, and as much again after
// an EndHold; then they are killed. None outlives the launcher, however that ends.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LOCAL_LAUNCHER_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LOCAL_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/end_hold.h"
#include "core/comm/rendezvous/launched_process.h"  // what those that are started see of it

namespace dpipe {

struct LaunchOptions {
  int num_processes = 1;
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  absl::Duration grace = absl::Seconds(30);    // after the first failure, or a hold after it
  absl::Duration longest_hold = kLongestHold;  // after the first failure
};

// Runs them to their end. 0 where all have ended well, else what the first to fail has returned,
// 128 + the signal's number where a signal ended it. InvalidArgument for more processes than
// MaxLocalProcesses. To be called before there are other threads.
absl::StatusOr<int> LaunchLocalProcesses(const LaunchOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LOCAL_LAUNCHER_H_
