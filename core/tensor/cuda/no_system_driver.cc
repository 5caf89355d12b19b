#include "absl/strings/str_cat.h"
#include "core/tensor/cuda/system_driver.h"
#include "cuda_toolkit/why_not.h"

namespace dpipe::cuda {

absl::StatusOr<Driver*> SystemDriver() {
  return absl::UnimplementedError(absl::StrCat(
      "this program was built without CUDA (", kWhyNoCudaToolkit,
      "): install the CUDA toolkit, 13.0 or newer, with cuDNN 9.8 or newer and NCCL, and build "
      "again"));
}

}  // namespace dpipe::cuda
