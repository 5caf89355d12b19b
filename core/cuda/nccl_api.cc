#include "core/cuda/nccl_api.h"

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, NcclApi& table) {
  DPIPE_NCCL_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const NcclApi*> LoadNccl() {
  static const auto* const loaded = new absl::StatusOr<NcclApi>(LoadTable(
      CudaLibraryNames("libnccl.so.2"), "ranks on several GPUs need it: install NCCL 2", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
