// Calls of NCCL that an operation of a communicator consists of (comm_stream.h).
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_

#include <cstdint>
#include <functional>

#include "core/base/status.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe {

// What an enqueued operation works with.
struct NcclCall {
  const NcclApi* api;
  cuda::Driver* driver;
  CommStream::Turn turn;
};

// Calls between ncclGroupStart and ncclGroupEnd, which ends also after an error. They come to the
// stream when the turn's `settle` has returned; after Grouped they are there.
absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls);
absl::Status Grouped(const NcclCall& call, const std::function<absl::Status()>& calls);
// Bytes of any kind, to and from a rank of the communicator; none are no call.
absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer);
absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
