// The devices of the processes of a job, who must have the same kind of them.
#ifndef DPIPE_CORE_BACKEND_CHOOSE_TOGETHER_H_
#define DPIPE_CORE_BACKEND_CHOOSE_TOGETHER_H_

#include <functional>

#include "core/backend/choose_devices.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"

namespace dpipe {

// This process's devices; of several hosts each divides its own. All processes of the job call
// this, and get FailedPrecondition, naming both processes and what they have, where some have GPUs
// and others none, some have more devices than others, two have one GPU, or one has shares of a
// GPU. What one process fails with, all do. `request`: a count of 0 is one device; which process of
// its host this one is the group knows.
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
