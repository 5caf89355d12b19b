// Chooses the devices of all processes of a job, which must be of the same kind.
#ifndef DPIPE_CORE_BACKEND_CHOOSE_TOGETHER_H_
#define DPIPE_CORE_BACKEND_CHOOSE_TOGETHER_H_

#include <functional>

#include "core/backend/choose_devices.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"

namespace dpipe {

// Returns this process's devices; each host divides its own. All processes of the job must call
// this. In `request`, a count of 0 is one device; the process's number on its host comes from the
// group. An error in one process is returned by all. FailedPrecondition, naming two processes and
// their devices, if
// - some processes have GPUs and others have none,
// - they have different numbers of devices,
// - two of them use the same GPU, or
// - one has shares of a GPU.
absl::StatusOr<ChosenDevices> ChooseDevicesTogether(const DeviceRequest& request,
                                                    ProcessGroup* processes);

namespace internal {
// `driver` finds the GPUs.
absl::StatusOr<ChosenDevices> ChooseDevicesTogether(
    const DeviceRequest& request, ProcessGroup* processes,
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CHOOSE_TOGETHER_H_
