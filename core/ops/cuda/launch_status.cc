#include "core/ops/cuda/launch_status.h"

#include "absl/strings/str_cat.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {

absl::Status LaunchStatus(const Device& device, absl::string_view op) {
  if (StreamOf(device).emulated) return absl::OkStatus();
  const char* const error = LastLaunchError();
  if (error == nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot launch a kernel of ", op, ": ", error));
}

}  // namespace dpipe::ops::cuda
