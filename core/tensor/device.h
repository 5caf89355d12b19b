// A device owns tensors' memory and runs ops.
#ifndef DPIPE_CORE_TENSOR_DEVICE_H_
#define DPIPE_CORE_TENSOR_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/tensor/allocator.h"
#include "core/tensor/device_graphs.h"
#include "core/tensor/dtype.h"
#include "core/tensor/ordered_sum.h"

namespace dpipe {

// Selects the implementation of every op.
enum class DeviceKind {
  kCpu,           // oneDNN and vectorised loops
  kCpuReference,  // plain loops: the reference that the others are tested against
  kCuda,
};

// A point in a device's work. Thread-safe.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual bool done() const = 0;
  // Time at which the device reached the event, on the clock of MonotonicNow(). Valid once done().
  virtual Nanos time_ns() const = 0;
};

// Driven by one thread, which calls BindThread once. Ops on the device's tensors run in that
// thread, synchronously on a CPU. On an asynchronous device they are enqueued in the thread's
// order, and their errors show in Synchronize at the latest. Owned by a shared_ptr, because every
// tensor keeps its device alive.
class Device {
 public:
  // Returns a share of the machine's cores. `cores` are the logical cores to pin to; if empty,
  // there is one thread and no pinning.
  static std::shared_ptr<Device> Cpu(std::vector<int> cores = {});
  static std::shared_ptr<Device> CpuReference();
  // Returns `count` CPU devices that share this process's allowed cores evenly, in order.
  // InvalidArgument if there are fewer cores than devices; the message names both numbers.
  static absl::StatusOr<std::vector<std::shared_ptr<Device>>> PartitionCpu(int count);

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns another device on the same cores, with its own allocator and statistics.
  virtual std::shared_ptr<Device> MakeSibling() const = 0;

  DeviceKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  // Maximum number of host threads per op.
  virtual int num_threads() const { return 1; }
  virtual Allocator& allocator() = 0;
  // True if host code may read and write the memory of this device's tensors at any time.
  virtual bool has_host_memory() const = 0;

  // Makes the calling thread this device's worker: pins it to the device's cores and sizes its
  // OpenMP teams, or makes the device current.
  virtual absl::Status BindThread() const = 0;
  // Blocks until everything enqueued is done. Returns the first error since the device was made.
  virtual absl::Status Synchronize() = 0;

  // Copy bytes, in the order of the device's work. On return `host` may be written again
  // (CopyFromHost) or read (CopyToHost).
  virtual void CopyFromHost(void* to, const void* host, int64_t size_bytes) = 0;
  virtual void CopyToHost(void* host, const void* from, int64_t size_bytes) = 0;
  // Copies from memory of `peer`, a device of the same kind or this device itself. The copy runs
  // after all work that `peer` has enqueued so far.
  virtual void CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) = 0;
  virtual void FillZero(void* data, int64_t size_bytes) = 0;
  // Rounds `count` elements from fp32 to bf16 (to nearest even), or widens them from bf16 to fp32.
  virtual void Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                       int64_t count) = 0;

  // Computes all `sums` in as few launches as possible. No sum may overlap another sum or another
  // sum's terms.
  virtual void AddUp(absl::Span<const OrderedSum> sums) = 0;
  // sum += term: fp32, `count` elements each, element by element.
  void Accumulate(void* sum, const void* term, int64_t count);

  // Returns an event after everything that has been enqueued so far.
  virtual std::shared_ptr<DeviceEvent> RecordEvent() = 0;
  // Makes all work enqueued from here on wait for `event`, which may be of any device of the same
  // kind.
  virtual void WaitFor(const DeviceEvent& event) = 0;
  // A block of another device's allocator.
  struct BorrowedBlock {
    Device* owner;
    void* data;
  };
  // Declares that this device will enqueue no more work on the blocks. Their owners reuse them
  // only after the work that this device has already enqueued.
  virtual void ReleaseBorrowed(absl::Span<const BorrowedBlock> blocks) = 0;

  // Human-readable notes about fallbacks, without duplicates. Thread-safe.
  std::vector<std::string> notes() const ABSL_LOCKS_EXCLUDED(notes_mutex_);
  void Note(const std::string& note) ABSL_LOCKS_EXCLUDED(notes_mutex_);

  // Returns null if the device cannot record its work.
  virtual DeviceGraphs* graphs() { return nullptr; }

 protected:
  Device(DeviceKind kind, std::string name) : kind_(kind), name_(std::move(name)) {}

 private:
  const DeviceKind kind_;
  const std::string name_;
  mutable absl::Mutex notes_mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(notes_mutex_);
};

// Copies bytes between any two devices, through host memory if there is no direct way. `to` is
// written in the order of to_device's work.
void CopyBytes(Device& to_device, void* to, Device& from_device, const void* from,
               int64_t size_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_H_
