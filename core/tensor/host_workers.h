// Workers for passes whose parameters lie in the host's memory.
#ifndef DPIPE_CORE_TENSOR_HOST_WORKERS_H_
#define DPIPE_CORE_TENSOR_HOST_WORKERS_H_

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

// A device whose tensors the host can read: the given one, or the CPU where it is a GPU.
std::shared_ptr<Device> HostDeviceFor(const std::shared_ptr<Device>& device);

// The given workers where their devices are the host's; else as many of its own as there are cores.
class HostWorkers {
 public:
  // The given ones outlive it.
  static absl::StatusOr<HostWorkers> For(const std::vector<DeviceWorker*>& workers);

  const std::vector<DeviceWorker*>& workers() const { return workers_; }

 private:
  HostWorkers() = default;

  std::vector<std::unique_ptr<DeviceWorker>> own_;
  std::vector<DeviceWorker*> workers_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_HOST_WORKERS_H_
