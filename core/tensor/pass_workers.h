// Workers for passes beside training: samples, held-out losses, offline caches.
#ifndef DPIPE_CORE_TENSOR_PASS_WORKERS_H_
#define DPIPE_CORE_TENSOR_PASS_WORKERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

// A device whose tensors the host can read: the given one, or the CPU where it is a GPU.
std::shared_ptr<Device> HostDeviceFor(const std::shared_ptr<Device>& device);

// Workers for passes beside training: those of the given ones whose devices have room now; on the
// CPU all. Where training has left no GPU enough memory, which the first device notes, new ones on
// the CPU, one for each core. Its destructor gives back what the passes have kept on the GPUs,
// since training needs the memory.
class PassWorkers {
 public:
  ~PassWorkers();
  PassWorkers(PassWorkers&&) = default;

  // Passes need `size_bytes` on each device, and 1 GiB for what kernels allocate. The given workers
  // outlive it.
  static absl::StatusOr<PassWorkers> For(const std::vector<DeviceWorker*>& workers,
                                         int64_t size_bytes);

  const std::vector<DeviceWorker*>& workers() const { return workers_; }

 private:
  PassWorkers() = default;

  std::vector<std::unique_ptr<DeviceWorker>> own_;
  std::vector<DeviceWorker*> workers_;  // none where it was moved from
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_PASS_WORKERS_H_
