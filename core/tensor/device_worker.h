// A thread that drives one device, possibly for the life of the process.
#ifndef DPIPE_CORE_TENSOR_DEVICE_WORKER_H_
#define DPIPE_CORE_TENSOR_DEVICE_WORKER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/device.h"

namespace dpipe {

// Pinned to the device's cores. It outlives sessions, because libraries cache compiled kernels and
// plans per thread.
class DeviceWorker {
 public:
  explicit DeviceWorker(std::shared_ptr<Device> device);
  ~DeviceWorker();
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }

  // Starts `job` on the worker's thread. The caller must have waited for the previous job. An
  // exception that escapes `job` becomes an Internal status.
  void Start(std::function<absl::Status()> job);
  // Blocks until the job and all work that it enqueued on the device are done.
  absl::Status Wait();

 private:
  void Loop();

  const std::shared_ptr<Device> device_;
  absl::Mutex mutex_;
  std::function<absl::Status()> job_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Starts one worker per device.
std::vector<std::unique_ptr<DeviceWorker>> StartWorkers(
    absl::Span<const std::shared_ptr<Device>> devices);

// Runs job(i) on every worker i concurrently and returns all statuses, in order.
std::vector<absl::Status> RunOnAll(absl::Span<DeviceWorker* const> workers,
                                   const std::function<absl::Status(int)>& job);

// Returns the first status that is not OK, in order.
absl::Status FirstError(absl::Span<const absl::Status> statuses);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_WORKER_H_
