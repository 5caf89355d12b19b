// Work that a device records once and relaunches in one call: CUDA graphs.
#ifndef DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_
#define DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"

namespace dpipe {

// Recorded work, with the memory that it allocated. The memory stays allocated, on the device's
// account, until the graph and all its tensors are gone. The destructor waits for pending launches.
// The device must outlive the graph.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Enqueues the work on the tensors that it was recorded with; their memory must be unchanged.
  virtual void Launch() = 0;
};

// Used only by the device's worker thread.
class DeviceGraphs {
 public:
  virtual ~DeviceGraphs() = default;

  // Runs `work` normally and returns the memory that recording it needs: the peak of its tensors'
  // bytes if they are placed in one block.
  virtual int64_t MeasureMemory(const std::function<void()>& work) = 0;
  // Waits for the device and calls `work`, whose operations are recorded instead of run. Tensors
  // made by `work` are placed in a block of `memory_bytes`; those that outlive it hold the results
  // of the last launch. Returns the error of `work`, or an error if `work` does something that
  // cannot be recorded: a copy from or to the host, an event, or an allocation beyond
  // `memory_bytes`. After an error the device is unchanged, and the caller must drop everything
  // that `work` has made.
  virtual absl::StatusOr<std::unique_ptr<DeviceGraph>> Record(
      int64_t memory_bytes, const std::function<absl::Status()>& work) = 0;
  // True if the calling thread is recording.
  virtual bool recording() const = 0;
  // Makes the calling thread's recording end with this error.
  virtual void Refuse(const std::string& reason) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_GRAPHS_H_
