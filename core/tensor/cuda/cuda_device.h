// GPUs and virtual GPUs as devices.
#ifndef DPIPE_CORE_TENSOR_CUDA_CUDA_DEVICE_H_
#define DPIPE_CORE_TENSOR_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/cuda/pinned_staging.h"
#include "core/tensor/cuda/recording_gate.h"
#include "core/tensor/cuda/stream_ordered_allocator.h"
#include "core/tensor/device.h"

namespace dpipe::cuda {

// A GPU, or a share of its multiprocessors, with one stream for all work and an allocator that is
// ordered by that stream.
//
// Errors of calls that return no status are kept, with the name of the call, until Synchronize.
// Only the first one is kept. Like the GPU's own errors, it ends the use of the device. The
// exception is an error of work that is being recorded (CUDA graphs): it ends only that recording.
//
// While one thread records, other threads that enqueue work wait.
class CudaDevice : public Device, public DeviceGraphs {
 public:
  // `driver` must outlive the device.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Create(Driver* driver, const Gpu& gpu,
                                                            const Context& context,
                                                            std::string name);
  ~CudaDevice() override;

  std::shared_ptr<Device> MakeSibling() const override;
  Allocator& allocator() override { return *allocator_; }
  bool has_host_memory() const override { return false; }
  absl::Status BindThread() const override;
  absl::Status Synchronize() override;
  void CopyFromHost(void* to, const void* host, int64_t size_bytes) override;
  void CopyToHost(void* host, const void* from, int64_t size_bytes) override;
  void CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) override;
  void FillZero(void* data, int64_t size_bytes) override;
  void Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
               int64_t count) override;
  void AddUp(absl::Span<const OrderedSum> sums) override;
  std::shared_ptr<DeviceEvent> RecordEvent() override;
  void WaitFor(const DeviceEvent& event) override;
  void ReleaseBorrowed(absl::Span<const BorrowedBlock> blocks) override;
  DeviceGraphs* graphs() override { return this; }
  int64_t MeasureMemory(const std::function<void()>& work) override;
  absl::StatusOr<std::unique_ptr<DeviceGraph>> Record(
      int64_t memory_bytes, const std::function<absl::Status()>& work) override;
  bool recording() const override { return gate_.recording(); }
  void Refuse(const std::string& reason) override { Keep(absl::FailedPreconditionError(reason)); }

  const Gpu& gpu() const { return gpu_; }
  const Context& context() const { return context_; }
  Stream stream() const { return stream_; }
  Driver& driver() const { return *driver_; }

  // Returns when the GPU reached `event`. The event may be of any stream of this GPU, and must have
  // been reached.
  Nanos TimeOf(Event event) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Delays work that is enqueued from now on: it starts at least min(`duration_ns`, 1 second) after
  // earlier work is done.
  void Delay(Nanos duration_ns);

  // Keeps the first error that is not OK, for Synchronize. Thread-safe.
  void Keep(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns an object that lives as long as the device, at most one per type: a library's handle, a
  // cache of plans. The first call creates it with `make`. Only the device's thread may use it. It
  // is destroyed after the device's work is done, while the device's context or that of the whole
  // GPU is current.
  template <typename T>
  absl::StatusOr<T*> Attached(const std::function<absl::StatusOr<std::unique_ptr<T>>()>& make) {
    std::shared_ptr<void>& slot = attached_[std::type_index(typeid(T))];
    if (slot == nullptr) {
      DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<T> made, make());
      slot = std::move(made);
    }
    return static_cast<T*>(slot.get());
  }

  // An event with known host time, from which the times of other events are computed.
  struct Anchor;

 private:
  CudaDevice(Driver* driver, const Gpu& gpu, const Context& context, std::string name,
             Stream stream, Pool pool);
  absl::Status SetAnchor() ABSL_LOCKS_EXCLUDED(mutex_);
  // Captures the work that `work` enqueues.
  absl::StatusOr<Graph> Capture(const std::function<absl::Status()>& work);
  // Returns false if the calling thread is recording; the recording then fails with the name of
  // `call`.
  bool MayUse(const char* call) ABSL_LOCKS_EXCLUDED(mutex_);

  Driver* const driver_;
  const Gpu gpu_;
  const Context context_;
  const Stream stream_;
  std::unique_ptr<StreamOrderedAllocator> allocator_;
  PinnedStaging staging_;
  std::map<std::type_index, std::shared_ptr<void>> attached_;
  RecordingGate gate_;
  mutable absl::Mutex mutex_;
  absl::Status recording_error_ ABSL_GUARDED_BY(mutex_);  // the first one
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Anchor> anchor_ ABSL_GUARDED_BY(mutex_);
};

// Returns `device` as a CudaDevice. It must be one, and not an emulated device.
CudaDevice& CudaDeviceOf(Device& device);

// Describes the GPUs, as in "there are 2: GPU 0 (...), GPU 1 (...)".
std::string DescribeGpus(const std::vector<Gpu>& gpus);

// Creates devices for `count` GPUs, starting with GPU `first`. FailedPrecondition if there is no
// GPU. InvalidArgument if there are fewer; the message lists the available ones.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateCudaDevices(Driver* driver, int count,
                                                                       int first = 0);

// Divides GPU 0 into `count` virtual GPUs with equal numbers of multiprocessors (driver.h). They
// share its memory and its memory bandwidth.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateVirtualCudaDevices(Driver* driver,
                                                                              int count);

// Returns the usable memory in bytes of each device, for devices that compute at the same time.
// Devices on one GPU get equal parts of the memory that plans and profiles may count on there. The
// value is 0 for devices with host memory and for GPUs of unknown memory size.
std::vector<int64_t> UsableBytes(const std::vector<std::shared_ptr<Device>>& devices);

// True if there are several devices, all on one GPU.
bool ShareOneGpu(const std::vector<std::shared_ptr<Device>>& devices);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_CUDA_DEVICE_H_
