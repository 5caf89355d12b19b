// Ranks that are threads of one process: a message is a reference handed over, without a copy.
#ifndef DPIPE_CORE_COMM_IN_PROCESS_H_
#define DPIPE_CORE_COMM_IN_PROCESS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/comm/communicator.h"

namespace dpipe {

struct InProcessOptions {
  // Longest that any one wait may take.
  absl::Duration deadline = absl::Seconds(120);
};

// The communicators of `size` ranks, in rank order. They share one state, which lives as long as
// any of them.
std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_IN_PROCESS_H_
