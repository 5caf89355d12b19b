// Ranks that are processes, on one host or many, or threads of several processes. Messages go over
// TCP by Gloo. Sums have the same bits as those of in_process.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_H_

#include <memory>

#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {

using GlooOptions = JobRank;  // the device is a CPU

// Connects a rank by Gloo; a ConnectJobRankFn.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(StoreClient* store,
                                                          const GlooOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_H_
