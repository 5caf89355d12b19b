// A rank of a job whose ranks are divided among processes, and how it connects to the others.
#ifndef DPIPE_CORE_COMM_JOB_RANK_H_
#define DPIPE_CORE_COMM_JOB_RANK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/tensor/device.h"

namespace dpipe {

struct JobRank {
  // Distinguishes these communicators from others of the same job: the same on every rank, used
  // once.
  std::string name;
  Rank rank;
  int size = 1;
  std::shared_ptr<Device> device;                // holds the tensors
  absl::Duration deadline = absl::Seconds(120);  // of any one wait
};

// Creates a rank's communicator. Called for all ranks of the job at the same time, each on its
// device's thread; returns when all are connected. A failure of the job ends the communicator's
// waits, and a failed wait ends the job: Abort is StoreClient::Fail. `store` outlives the
// communicator. The communicator's destructor waits for those of the other ranks unless the job has
// failed, so ranks of one process must be destroyed on one thread each.
using ConnectJobRankFn = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    StoreClient* store, const JobRank& rank)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_JOB_RANK_H_
