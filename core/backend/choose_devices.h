// Chooses the devices for a user's request.
#ifndef DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_
#define DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device.h"

namespace dpipe {

struct DeviceRequest {
  // cpu, cuda, or auto: cuda if GPUs can be used as requested, else cpu. auto fails only if cpu
  // fails too, or a file of engines cannot be used.
  std::string backend = "cpu";
  int count = 0;            // 0: every core or GPU; of virtual devices: their number
  int virtual_devices = 0;  // cuda: divides one GPU into this many shares; 0: whole GPUs
  // cuda: a file with the engine for each operation (ops/cuda/engine_choices.h). Empty: always the
  // first engine that the library names. With time_engines, operations that the file lacks are
  // timed and added.
  std::string engines;
  bool time_engines = false;
  bool keeps_engines = true;  // false: timed choices are not written to the file
  // cuda: use only engines with reproducible results.
  bool deterministic = true;
  // This process's number among those that share the host and make the same request, and their
  // number. A count of 0 then means one device each. All are assumed to be allowed the same
  // cores, which they divide; if there are more devices than cores, several share one. Of the GPUs
  // that the driver shows (CUDA_VISIBLE_DEVICES), process 0 takes the first `count`, process 1 the
  // next. If it shows no more than `count`, all are this process's, as when a scheduler assigns
  // them (ChooseDevicesTogether detects if it did not).
  int local_process = 0;
  int num_local = 1;
};

struct ChosenDevices {
  std::vector<std::shared_ptr<Device>> devices;
  // Why these: "--backend=cpu", "--backend=auto found a GPU", or "no GPU can be used: this machine
  // has no NVIDIA driver".
  std::string reason;
  // Usually empty. Otherwise: that devices share cores, or the cores that a CPU quota leaves.
  std::string note;
};

// Returns "2 CPU devices of 1 core each (no GPU can be used: ...)" or "1 GPU, cuda:0 (NVIDIA H200)
// (--backend=auto found a GPU)", and the note.
std::string DescribeDevices(const ChosenDevices& chosen);

// Returns the requested devices. With auto, whatever makes GPUs unusable (none, an old one, too
// few, NVIDIA_TF32_OVERRIDE, no memory) is the reason for the CPU.
// - InvalidArgument for an unknown backend, inconsistent numbers, or virtual devices in several
//   processes.
// - InvalidArgument if engines are to be timed without a file, on several GPUs or by several
//   processes.
// - InvalidArgument for more devices than there are; the message has their number.
// - FailedPrecondition if cuda was requested and there is no GPU, or one of them is too old.
// - Unimplemented if cuda was requested and the program was built without CUDA.
absl::StatusOr<ChosenDevices> ChooseDevices(const DeviceRequest& request);

namespace internal {
// `driver` finds the GPUs.
absl::StatusOr<ChosenDevices> ChooseDevices(
    const DeviceRequest& request, const std::function<absl::StatusOr<cuda::Driver*>()>& driver);
}  // namespace internal

// Returns this process's devices; each host divides its own. All processes of the job must call
// this. In `request`, a count of 0 is one device; the process's number on its host comes from the
// group. An error in one process is returned by all. FailedPrecondition, naming two processes and
// their devices, if the following holds; with auto, all processes then use their CPUs.
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

#endif  // DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_
