// From what a user requests to devices.
#ifndef DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_
#define DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device.h"

namespace dpipe {

struct DeviceRequest {
  std::string backend = "cpu";  // cpu, cuda, or auto: cuda where there is a GPU, else cpu
  int count = 0;                // 0: every core, every GPU; of virtual devices it is their number
  int virtual_devices = 0;      // cuda: divides one GPU into this many; 0: whole GPUs
  // cuda: a file of which engine runs what (ops/cuda/engine_choices.h); empty: everywhere the
  // first that the libraries name. time_engines: operations that it lacks are timed, and added.
  std::string engines;
  bool time_engines = false;
  bool keeps_engines = true;  // false: what is timed is not written into the file
  // cuda: only by engines that compute the same every time.
  bool deterministic = true;
  // Where several processes share a host and make the same request: the number of this one among
  // them, and how many they are. A count of 0 is one device each then. All are taken to be allowed
  // the same cores, which they divide; where there are more devices than cores several share one.
  // Of the GPUs that the driver shows (CUDA_VISIBLE_DEVICES) process 0 takes the first `count`,
  // process 1 the next; where it shows no more than `count`, they are this process's alone, as
  // schedulers see to (choose_together.h finds out where that is not so).
  int local_process = 0;
  int num_local = 1;
};

struct ChosenDevices {
  std::vector<std::shared_ptr<Device>> devices;
  // Why not cuda, where auto was requested: "no GPU: ...; the CPU is used"; that devices share
  // cores; or what a CPU quota leaves. Mostly empty.
  std::string note;
};

// InvalidArgument for an unknown backend, numbers that do not fit together, virtual devices of
// several processes, engines that are to be timed without a file, on several GPUs or by several
// processes, or more devices than there are, naming what there is; FailedPrecondition where
// cuda was requested and there is no GPU, Unimplemented where this program was built without CUDA.
absl::StatusOr<ChosenDevices> ChooseDevices(const DeviceRequest& request);

namespace internal {
// `driver` finds the GPUs.
absl::StatusOr<ChosenDevices> ChooseDevices(
    const DeviceRequest& request, const std::function<absl::StatusOr<cuda::Driver*>()>& driver);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CHOOSE_DEVICES_H_
