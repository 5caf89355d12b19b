#include "core/comm/nccl/nccl_call.h"

namespace dpipe {

absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls) {
  const NcclApi& api = *call.api;
  DPIPE_RETURN_IF_ERROR(CommStream::ToStatus(api, api.ncclGroupStart(), "ncclGroupStart"));
  const absl::Status status = calls();
  const absl::Status ended = CommStream::ToStatus(api, api.ncclGroupEnd(), "ncclGroupEnd");
  DPIPE_RETURN_IF_ERROR(status);
  return ended;
}

absl::Status Grouped(const NcclCall& call, const std::function<absl::Status()>& calls) {
  DPIPE_RETURN_IF_ERROR(Group(call, calls));
  return call.turn.settle();
}

absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return CommStream::ToStatus(
      *call.api,
      call.api->ncclSend(data, size_bytes, ncclUint8, peer, call.turn.comm, call.turn.stream),
      "ncclSend");
}

absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return CommStream::ToStatus(
      *call.api,
      call.api->ncclRecv(data, size_bytes, ncclUint8, peer, call.turn.comm, call.turn.stream),
      "ncclRecv");
}

}  // namespace dpipe
