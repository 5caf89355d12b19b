// Work that a device records once and enqueues again in one call: CUDA graphs.
#ifndef DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_
#define DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"

namespace dpipe {

// What was recorded, with the memory that its work allocated. That memory stays taken, on the
// device's account, until the graph and every tensor in it are gone. Destroyed, it waits for its
// launches. The device outlives it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Enqueues the work on the tensors that it was recorded with: their memory must be as it was.
  virtual void Launch() = 0;
};

// To be used by the thread that works for the device.
class DeviceGraphs {
 public:
  virtual ~DeviceGraphs() = default;

  // Runs `work` as always, and returns how many bytes it takes to have it recorded: those of the
  // tensors that it makes, at their most, as they would be placed in one block.
  virtual int64_t MeasureMemory(const std::function<void()>& work) = 0;
  // Waits for the device, and calls `work`, which does not run what it enqueues: it is recorded.
  // Tensors that it makes lie in a block of `memory_bytes`; such as outlive it hold what the last
  // launch has computed. The error of `work`, or what it has done that cannot be recorded: copying
  // from or to the host, events, more memory than that. Nothing has happened to the device then;
  // what `work` has made is to be dropped.
  virtual absl::StatusOr<std::unique_ptr<DeviceGraph>> Record(
      int64_t memory_bytes, const std::function<absl::Status()>& work) = 0;
  // Whether the calling thread is recording.
  virtual bool recording() const = 0;
  // Has the recording that the calling thread is making end with this error.
  virtual void Refuse(const std::string& reason) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_
