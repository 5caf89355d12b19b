// A device: where tensors live and ops run.
#ifndef DPIPE_CORE_TENSOR_DEVICE_H_
#define DPIPE_CORE_TENSOR_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/allocator.h"

namespace dpipe {

// Which implementation of every op a device uses.
enum class DeviceKind {
  kCpu,           // oneDNN and vectorised loops
  kCpuReference,  // plain loops, the definition that the others are tested against
  kCuda,
};

// A CPU device is a share of the machine's cores. The thread that works for it calls BindThread
// once; from then on ops on the device's tensors run synchronously on that thread (and its OpenMP
// team). Owned by a shared_ptr, because every tensor keeps its device alive.
class Device {
 public:
  // `cores`: logical cores to pin to; empty: no pinning, one thread.
  static std::shared_ptr<Device> Cpu(std::vector<int> cores = {});
  static std::shared_ptr<Device> CpuReference();
  // `count` CPU devices that share this process's allowed cores evenly, in order. InvalidArgument
  // where there are fewer cores than devices, naming both numbers.
  static absl::StatusOr<std::vector<std::shared_ptr<Device>>> PartitionCpu(int count);

  // Another device on the same cores, with an allocator and statistics of its own.
  std::shared_ptr<Device> Twin() const;

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  int num_threads() const { return num_threads_; }
  CachingAllocator& allocator() { return allocator_; }

  // Pins the calling thread to the device's cores and gives its OpenMP teams that many threads.
  absl::Status BindThread() const;

 private:
  Device(DeviceKind kind, std::string name, std::vector<int> cores);

  const DeviceKind kind_;
  const std::string name_;
  const std::vector<int> cores_;
  const int num_threads_;
  CachingAllocator allocator_;
};

// Logical cores that this process may use (its affinity mask), increasing.
std::vector<int> AllowedCores();

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_H_
