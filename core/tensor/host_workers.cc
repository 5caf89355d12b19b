#include "core/tensor/host_workers.h"

#include "core/tensor/device.h"

namespace dpipe {

std::shared_ptr<Device> HostDeviceFor(const std::shared_ptr<Device>& device) {
  return device->has_host_memory() ? device : Device::Cpu();
}

absl::StatusOr<HostWorkers> HostWorkers::For(const std::vector<DeviceWorker*>& workers) {
  HostWorkers host;
  host.workers_ = workers;
  if (workers.empty() || workers[0]->device()->has_host_memory()) return host;
  DPIPE_ASSIGN_OR_RETURN(const auto cores,
                         Device::PartitionCpu(static_cast<int>(AllowedCores().size())));
  host.own_ = StartWorkers(cores);
  host.workers_.clear();
  for (const auto& worker : host.own_) host.workers_.push_back(worker.get());
  return host;
}

}  // namespace dpipe
