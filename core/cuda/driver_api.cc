#include "core/cuda/driver_api.h"

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, DriverApi& table) {
  DPIPE_DRIVER_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const DriverApi*> LoadDriver() {
  static const auto* const loaded = new absl::StatusOr<DriverApi>(
      LoadTable(CudaLibraryNames("libcuda.so.1"),
                "it comes with NVIDIA's driver: install that to use GPUs", Bind));
  return PointerOrStatus(*loaded);
}

}  // namespace dpipe
