#include "core/cuda/nccl_api.h"

#include <cstdlib>

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, NcclApi& table) {
  DPIPE_NCCL_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const NcclApi*> LoadNccl() {
  // NCCL reads this at its first use. Between GPUs of one process, NCCL would by default access
  // tensors directly, but stream-ordered memory is accessible only from its own GPU. With this
  // setting it copies through its own buffers, as between processes.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  static const auto* const loaded = new absl::StatusOr<NcclApi>(LoadTable(
      CudaLibraryNames("libnccl.so.2"), "ranks on several GPUs need it: install NCCL 2", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
