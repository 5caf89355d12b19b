// A rank of a job whose ranks are divided among processes, and how it comes to talk to the others.
#ifndef DPIPE_CORE_COMM_JOB_RANK_H_
#define DPIPE_CORE_COMM_JOB_RANK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous/store_client.h"
#include "core/tensor/device.h"

namespace dpipe {

struct JobRank {
  // Tells these communicators from others of the same job: the same on every rank, and used once.
  std::string name;
  Rank rank;
  int size = 1;
  std::shared_ptr<Device> device;                // where tensors lie
  absl::Duration deadline = absl::Seconds(120);  // of any one wait
};

// Makes a rank's communicator; called for all ranks of the job at once, each on its device's
// thread. Returns when all are connected. What ends the job ends the communicator's waits, and what
// ends those ends the job: Abort is StoreClient::Fail. `store` outlives the communicator, whose
// destructor waits for the other ranks' unless the job has failed: those of ranks of one process
// are to be destroyed by a thread each.
using ConnectJobRankFn = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    StoreClient* store, const JobRank& rank)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_JOB_RANK_H_
