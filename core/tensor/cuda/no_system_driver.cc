#include "core/tensor/cuda/system_driver.h"

namespace dpipe::cuda {

absl::StatusOr<Driver*> SystemDriver() {
  return absl::UnimplementedError(
      "this program was built without CUDA: install the CUDA toolkit, 12.4 or newer, with cuDNN "
      "and "
      "NCCL, and build again");
}

}  // namespace dpipe::cuda
