// How an operation of a communicator (comm_stream.h) calls NCCL.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe {

// Returns Unavailable with NCCL's own message, unless `result` is success or in progress.
absl::Status NcclStatus(const NcclApi& api, ncclResult_t result, const std::string& call);

// Everything that an operation needs to enqueue its work.
struct NcclCall {
  const NcclApi* api;
  cuda::Driver* driver;
  ncclComm_t comm;  // valid only inside `exclusively`: another thread may abort it
  cuda::Stream stream;
  // Makes calls of NCCL while no thread aborts the communicator. Returns Cancelled if it has been
  // aborted. Calls of the driver stay outside: if the GPU's queue is full they wait for the stream.
  // The stream may wait for a rank that never arrives, and then only an abort ends both waits.
  std::function<absl::Status(const std::function<absl::Status()>& calls)> exclusively;
  // Blocks until NCCL has enqueued the group on the stream. Communicators are nonblocking, so NCCL
  // may do so after its call has returned. Call this after each group, before anything else is
  // enqueued or NCCL is called again; CommStream does so after the last group.
  std::function<absl::Status()> settle;
};

// Makes `calls` between ncclGroupStart and ncclGroupEnd, which is called after an error too. The
// group is on the stream after `settle` has returned, which SettledGroup also calls.
absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls);
absl::Status SettledGroup(const NcclCall& call, const std::function<absl::Status()>& calls);
// Sends or receives bytes of any type, to or from a rank of the communicator, inside a group. Makes
// no call if size_bytes is 0.
absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer);
absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_CALL_H_
