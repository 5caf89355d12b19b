// Ranks that are processes, on one host or on many, or threads of several: messages go over TCP by
// Gloo. The sums' bits are those of in_process.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous/store_client.h"
#include "core/tensor/device.h"

namespace dpipe {

struct GlooOptions {
  // Tells these communicators from others of the same job: the same on every rank, and used once.
  std::string name;
  Rank rank;
  int size = 1;
  std::shared_ptr<Device> device;                // where received tensors lie; a CPU
  absl::Duration deadline = absl::Seconds(120);  // of any one wait
};

// Returns when all ranks are connected. What ends the job ends the communicator's waits, and what
// ends those ends the job: Abort is StoreClient::Fail. `store` outlives the communicator, whose
// destructor waits for the other ranks' unless the job has failed: those of ranks of one process
// are to be destroyed by a thread each.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(StoreClient* store,
                                                          const GlooOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_H_
