#include "core/cuda/cudnn_api.h"

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, CudnnApi& table) {
  DPIPE_CUDNN_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CudnnApi*> LoadCudnn() {
  static const auto* const loaded = new absl::StatusOr<CudnnApi>(
      LoadTable(CudaLibraryNames("libcudnn.so.9"),
                "convolutions and attention on a GPU need it: install cuDNN 9", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
