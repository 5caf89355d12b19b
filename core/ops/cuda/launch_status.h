// Errors of kernel launches as Statuses.
#ifndef DPIPE_CORE_OPS_CUDA_LAUNCH_STATUS_H_
#define DPIPE_CORE_OPS_CUDA_LAUNCH_STATUS_H_

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/device.h"

namespace dpipe::ops::cuda {

// Returns Internal, with `op` and CUDA's message, if the calling thread's last launches for
// `device` failed. Always OK on emulated devices.
absl::Status LaunchStatus(const Device& device, absl::string_view op);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_LAUNCH_STATUS_H_
