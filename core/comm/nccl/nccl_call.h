// NCCL's calls as an operation of a communicator makes them (comm_stream.h).
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe {

// Unavailable, with NCCL's own words, unless `result` is success or in progress.
absl::Status NcclStatus(const NcclApi& api, ncclResult_t result, const std::string& call);

// What an operation is enqueued with.
struct NcclCall {
  const NcclApi* api;
  cuda::Driver* driver;
  ncclComm_t comm;  // valid inside `exclusively` only: another thread may abort it
  cuda::Stream stream;
  // Makes calls of NCCL while nobody aborts the communicator; Cancelled where somebody has. Calls
  // of the driver stay outside: where the GPU's queue is full they wait for the stream, which may
  // wait for a rank that never comes, and then only an abort ends both.
  std::function<absl::Status(const std::function<absl::Status()>& calls)> exclusively;
  // Communicators are nonblocking: NCCL may not have put on the stream yet what it was called for.
  // Returns when it has. To be called after each group, before anything else is enqueued or NCCL is
  // called again; CommStream does so after the last group.
  std::function<absl::Status()> settle;
};

// Calls between ncclGroupStart and ncclGroupEnd, which ends also after an error. They come to the
// stream when `settle` has returned; after SettledGroup they are there.
absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls);
absl::Status SettledGroup(const NcclCall& call, const std::function<absl::Status()>& calls);
// Bytes of any type, to and from a rank of the communicator, inside a group. No bytes are no call.
absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer);
absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
