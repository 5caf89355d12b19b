#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe::cuda {
namespace {

constexpr char kTf32[] = "NVIDIA_TF32_OVERRIDE";

}  // namespace

void LoadKernelsAtOnce() { setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

absl::Status CheckPrecision() {
  const char* const value = std::getenv(kTf32);
  if (value == nullptr || *value == '\0' || std::string(value) == "0") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kTf32, "=", value, " makes CUDA's libraries silently compute fp32 products in ",
                   "TF32; unset it or set it to 0"));
}

}  // namespace dpipe::cuda
