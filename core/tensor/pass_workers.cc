#include "core/tensor/pass_workers.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/host/usable_cpus.h"
#include "core/tensor/device.h"

namespace dpipe {
namespace {

// Probes all devices at once, since several may be parts of one GPU.
absl::StatusOr<std::vector<DeviceWorker*>> WorkersWithRoom(
    const std::vector<DeviceWorker*>& workers, int64_t size_bytes) {
  std::vector<void*> blocks(workers.size(), nullptr);
  const auto on_all = [&](const std::function<void(Allocator&, void*& block)>& job) {
    return FirstError(RunOnAll(workers, [&](int i) {
      job(workers[i]->device()->allocator(), blocks[i]);
      return absl::OkStatus();
    }));
  };
  // Memory cached by one device is not available to the others.
  DPIPE_RETURN_IF_ERROR(on_all([](Allocator& allocator, void*&) { allocator.ReleaseCache(); }));
  DPIPE_RETURN_IF_ERROR(on_all([size_bytes](Allocator& allocator, void*& block) {
    block = allocator.AllocateIfRoom(size_bytes);
  }));
  DPIPE_RETURN_IF_ERROR(on_all([size_bytes](Allocator& allocator, void*& block) {
    if (block == nullptr) return;
    allocator.Free(block, size_bytes);
    allocator.ReleaseCache();
  }));
  std::vector<DeviceWorker*> able;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (blocks[i] != nullptr) able.push_back(workers[i]);
  }
  return able;
}

}  // namespace

std::shared_ptr<Device> HostDeviceFor(const std::shared_ptr<Device>& device) {
  return device->has_host_memory() ? device : Device::Cpu();
}

PassWorkers::~PassWorkers() {
  for (DeviceWorker* worker : workers_) {
    if (!worker->device()->has_host_memory()) worker->device()->allocator().ReleaseCache();
  }
}

absl::StatusOr<PassWorkers> PassWorkers::Choose(const std::vector<DeviceWorker*>& workers,
                                                int64_t size_bytes) {
  PassWorkers chosen;
  chosen.workers_ = workers;
  if (workers.empty() || workers[0]->device()->has_host_memory()) return chosen;
  size_bytes += kGiB;
  DPIPE_ASSIGN_OR_RETURN(chosen.workers_, WorkersWithRoom(workers, size_bytes));
  if (!chosen.workers_.empty()) return chosen;
  workers[0]->device()->Note(
      absl::StrCat("less than ", FormatBytes(size_bytes),
                   " of GPU memory is free: samples, held-out losses and caches are computed on "
                   "the CPU"));
  DPIPE_ASSIGN_OR_RETURN(const auto cores, Device::PartitionCpu(FindUsableCpus().count));
  chosen.own_ = StartWorkers(cores);
  for (const auto& worker : chosen.own_) chosen.workers_.push_back(worker.get());
  return chosen;
}

}  // namespace dpipe
