// Devices that use host memory.
#ifndef DPIPE_CORE_TENSOR_CPU_DEVICE_H_
#define DPIPE_CORE_TENSOR_CPU_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/host/usable_cpus.h"
#include "core/tensor/caching_allocator.h"
#include "core/tensor/device.h"

namespace dpipe {

// A share of the machine's cores; ops run synchronously on the bound thread and its OpenMP team.
class CpuDevice : public Device {
 public:
  // `cores` as for Device::Cpu: if empty, the threads run on any core.
  CpuDevice(DeviceKind kind, std::string name, std::vector<int> cores, int num_threads);
  // Uses one thread per core, and at least one.
  CpuDevice(DeviceKind kind, std::string name, std::vector<int> cores);

  std::shared_ptr<Device> MakeSibling() const override;
  int num_threads() const override { return num_threads_; }
  Allocator& allocator() override { return allocator_; }
  bool has_host_memory() const override { return true; }
  absl::Status BindThread() const override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  void CopyFromHost(void* to, const void* host, int64_t size_bytes) override;
  void CopyToHost(void* host, const void* from, int64_t size_bytes) override;
  void CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) override;
  void FillZero(void* data, int64_t size_bytes) override;
  void Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
               int64_t count) override;
  void AddUp(absl::Span<const OrderedSum> sums) override;
  // The event is done at once, because work on a CPU is never in flight.
  std::shared_ptr<DeviceEvent> RecordEvent() override;
  void WaitFor(const DeviceEvent& event) override {}
  void ReleaseBorrowed(absl::Span<const BorrowedBlock> blocks) override {}

 private:
  const std::vector<int> cores_;
  const int num_threads_;
  CachingAllocator allocator_;
};

namespace internal {
// Implements Device::PartitionCpu for a machine with `cpus`.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> PartitionCpus(int count,
                                                                   const UsableCpus& cpus);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_CPU_DEVICE_H_
