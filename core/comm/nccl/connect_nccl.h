// How ranks with a GPU each find each other: as threads of one process, or at the store of a job of
// several processes, on one host or many.
#ifndef DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_
#define DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store_client.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

// The communicators of ranks that are threads of this process, a GPU each. They are destroyed when
// no rank will post anything any more: by their threads, or by one. Both functions return
// FailedPrecondition where CUDA_DEVICE_MAX_CONNECTIONS leaves streams too few queues on the GPU.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateLocalNcclCommunicators(
    const NcclApi* api, const std::vector<std::shared_ptr<Device>>& devices,
    absl::Duration deadline);

// As a ConnectJobRankFn; on a thread that is bound to the rank's GPU. Rank 0 makes NCCL's ids, the
// others find them in the store. Who has died the store knows: its failure aborts what is under
// way, and every rank's error says what it waited for, and why in vain.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclApi* api, StoreClient* store,
                                                          const JobRank& rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_CONNECT_NCCL_H_
