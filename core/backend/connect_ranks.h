// How ranks that are threads of this process talk to each other, by their devices.
#ifndef DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
#define DPIPE_CORE_BACKEND_CONNECT_RANKS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/tensor/device.h"

namespace dpipe {

// In rank order. CPUs and whatever else has host memory hand over references; so do ranks on one
// GPU, in the order of their streams; ranks on GPUs of their own use NCCL. FailedPrecondition where
// some ranks share a GPU and others do not, naming two devices; NotFound where NCCL is missing.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectRanks(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline);

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CONNECT_RANKS_H_
