// A device: where tensors live and ops run.
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

// Which implementation of every op a device uses.
enum class DeviceKind {
  kCpu,           // oneDNN and vectorised loops
  kCpuReference,  // plain loops, the definition that the others are tested against
  kCuda,
};

// A point in a device's work. Thread-safe.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual bool done() const = 0;
  // When the device came to it, as MonotonicNow() counts. Once it is done.
  virtual Nanos time_ns() const = 0;
};

// One thread works for a device; it calls BindThread once. Ops on the device's tensors run there:
// synchronously on a CPU; enqueued in the thread's order on a device that runs asynchronously,
// whose errors show at the latest in Synchronize. Owned by a shared_ptr, because every tensor keeps
// its device alive.
class Device {
 public:
  // A share of the machine's cores. `cores`: logical cores to pin to; empty: no pinning, one
  // thread.
  static std::shared_ptr<Device> Cpu(std::vector<int> cores = {});
  static std::shared_ptr<Device> CpuReference();
  // `count` CPU devices that share this process's allowed cores evenly, in order. InvalidArgument
  // where there are fewer cores than devices, naming both numbers.
  static absl::StatusOr<std::vector<std::shared_ptr<Device>>> PartitionCpu(int count);

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Another device on the same cores, with a separate allocator and statistics.
  virtual std::shared_ptr<Device> Twin() const = 0;

  DeviceKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  // Host threads that an op may use.
  virtual int num_threads() const { return 1; }
  virtual Allocator& allocator() = 0;
  // Whether host code may read and write the memory of its tensors, at any time.
  virtual bool has_host_memory() const = 0;

  // Makes the calling thread the one that works for this device: pins it to the device's cores and
  // gives its OpenMP teams that many threads, or makes the device current.
  virtual absl::Status BindThread() const = 0;
  // Blocks until everything enqueued is done. The first error since the device was made.
  virtual absl::Status Synchronize() = 0;

  // Bytes, in the order of the device's work. `host` may be written again (read) on return.
  virtual void CopyFromHost(void* to, const void* host, int64_t size_bytes) = 0;
  virtual void CopyToHost(void* host, const void* from, int64_t size_bytes) = 0;
  // `from` is memory of `peer`, a device of the same kind, maybe this one; read after what `peer`
  // has enqueued so far.
  virtual void CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) = 0;
  virtual void FillZero(void* data, int64_t size_bytes) = 0;
  // Rounds fp32 to bf16 (to nearest even) or widens bf16 to fp32: `count` elements.
  virtual void Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                       int64_t count) = 0;

  // Adds up each of `sums`, in as few launches as can be. No sum is memory of another one, nor of
  // its terms.
  virtual void AddUp(absl::Span<const OrderedSum> sums) = 0;
  // sum += term: fp32, `count` elements each, element by element.
  void Accumulate(void* sum, const void* term, int64_t count);

  // After everything that has been enqueued so far.
  virtual std::shared_ptr<DeviceEvent> RecordEvent() = 0;
  // What is enqueued here from now on comes after `event`, of any device of the same kind.
  virtual void WaitFor(const DeviceEvent& event) = 0;
  // A block of another device's allocator.
  struct Lent {
    Device* lender;
    void* data;
  };
  // This device will enqueue nothing more that uses the blocks, which must outlast what is enqueued
  // already.
  virtual void GiveBack(absl::Span<const Lent> blocks) = 0;

  // What it computes in another way than it was made for, and why, for a person; each once.
  // Thread-safe.
  std::vector<std::string> notes() const ABSL_LOCKS_EXCLUDED(notes_mutex_);
  void Note(const std::string& note) ABSL_LOCKS_EXCLUDED(notes_mutex_);

  // Null: it cannot record its work.
  virtual DeviceGraphs* graphs() { return nullptr; }

 protected:
  Device(DeviceKind kind, std::string name) : kind_(kind), name_(std::move(name)) {}

 private:
  const DeviceKind kind_;
  const std::string name_;
  mutable absl::Mutex notes_mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(notes_mutex_);
};

// Copies bytes from any device to any other, through the host's memory where there is no other way.
// `to` is written in the order of to_device's work.
void CopyBytes(Device& to_device, void* to, Device& from_device, const void* from,
               int64_t size_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_H_
