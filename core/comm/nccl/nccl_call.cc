#include "core/comm/nccl/nccl_call.h"

#include "absl/strings/str_cat.h"

namespace dpipe {

absl::Status NcclStatus(const NcclApi& api, ncclResult_t result, const std::string& call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  // Says which call of CUDA or of the network failed.
  const std::string detail = api.ncclGetLastError(nullptr);
  return absl::UnavailableError(absl::StrCat("NCCL, ", call, ": ", api.ncclGetErrorString(result),
                                             detail.empty() ? "" : ": ", detail));
}

absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls) {
  const NcclApi& api = *call.api;
  return call.exclusively([&]() -> absl::Status {
    DPIPE_RETURN_IF_ERROR(NcclStatus(api, api.ncclGroupStart(), "ncclGroupStart"));
    const absl::Status status = calls();
    const absl::Status ended = NcclStatus(api, api.ncclGroupEnd(), "ncclGroupEnd");
    DPIPE_RETURN_IF_ERROR(status);
    return ended;
  });
}

absl::Status SettledGroup(const NcclCall& call, const std::function<absl::Status()>& calls) {
  DPIPE_RETURN_IF_ERROR(Group(call, calls));
  return call.settle();
}

absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return NcclStatus(*call.api,
                    call.api->ncclSend(data, size_bytes, ncclUint8, peer, call.comm, call.stream),
                    "ncclSend");
}

absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return NcclStatus(*call.api,
                    call.api->ncclRecv(data, size_bytes, ncclUint8, peer, call.comm, call.stream),
                    "ncclRecv");
}

}  // namespace dpipe
