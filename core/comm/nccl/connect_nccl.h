// How ranks with a GPU each find each other: as threads of one process, or through the store of a
// job of several processes, on one host or many.
#ifndef DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_
#define DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

// Creates the communicators of ranks that are threads of this process, with a GPU each. Destroy
// them only when no rank will post anything more, each on its own thread or all on one. Both
// functions return FailedPrecondition if CUDA_DEVICE_MAX_CONNECTIONS gives streams too few hardware
// queues on the GPU.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateLocalNcclCommunicators(
    const NcclApi* api, const std::vector<std::shared_ptr<Device>>& devices,
    absl::Duration deadline);

// Connects a rank by NCCL; a ConnectJobRankFn, called on a thread that is bound to the rank's GPU.
// Rank 0 creates NCCL's ids, and the others read them from the store. The store knows which process
// has died. Its failure aborts the operations in flight, and every rank's error says what it waited
// for and why the wait failed.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclApi* api, StoreClient* store,
                                                          const JobRank& rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_
