// Workers for passes beside training: samples, held-out losses, offline caches.
#ifndef DPIPE_CORE_TENSOR_PASS_WORKERS_H_
#define DPIPE_CORE_TENSOR_PASS_WORKERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

// Returns a device whose tensors the host can read: the given one, or the CPU if it is a GPU.
std::shared_ptr<Device> HostDeviceFor(const std::shared_ptr<Device>& device);

// Chooses workers for passes beside training. On CPUs these are all given workers; on GPUs, those
// whose devices have enough free memory. If no GPU has enough, they are new workers on the CPU, one
// per core, and the first device gets a note. The destructor releases the memory that the passes
// have cached on GPUs, because training needs it.
class PassWorkers {
 public:
  ~PassWorkers();
  PassWorkers(PassWorkers&&) = default;

  // Requires `size_bytes` on each device, plus 1 GiB for the kernels' own allocations. The given
  // workers must outlive the result.
  static absl::StatusOr<PassWorkers> Choose(const std::vector<DeviceWorker*>& workers,
                                            int64_t size_bytes);

  const std::vector<DeviceWorker*>& workers() const { return workers_; }

 private:
  PassWorkers() = default;

  std::vector<std::unique_ptr<DeviceWorker>> own_;
  std::vector<DeviceWorker*> workers_;  // empty after a move
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_PASS_WORKERS_H_
