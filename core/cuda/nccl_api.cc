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
  // Read when NCCL is first used. Between GPUs of one process it would read and write tensors where
  // they lie, but memory in the order of a stream can be reached from its own GPU alone. So it
  // copies through buffers of its own, as between processes.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  static const auto* const loaded = new absl::StatusOr<NcclApi>(LoadTable(
      CudaLibraryNames("libnccl.so.2"), "ranks on several GPUs need it: install NCCL 2", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
