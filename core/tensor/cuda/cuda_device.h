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

// A GPU, or a share of one's multiprocessors, with a stream that everything is enqueued on and an
// allocator in that stream's order. Calls that the interface lets return nothing keep their first
// error, with the call's name, for Synchronize: as the GPU's own errors do, it ends the device's
// use. But for errors of the work that is being recorded (CUDA graphs): they end that recording
// alone. While a thread records, others that would enqueue something wait.
class CudaDevice : public Device, public DeviceGraphs {
 public:
  // `driver` outlives the device.
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

  // When the GPU came to an event, of whatever stream of it, that it has come to.
  Nanos TimeOf(Event event) const ABSL_LOCKS_EXCLUDED(mutex_);

  // What is enqueued from now on starts at least so long, but at most a second, after what was
  // enqueued before is done.
  void Delay(Nanos duration_ns);

  // Keeps the first error that is not OK, for Synchronize. Thread-safe.
  void Keep(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Something that lives with the device, one a type: a library's handle, a cache of plans. Made at
  // the first call; used by the device's thread alone. Destroyed when the device's work is done,
  // with its context current, or the whole GPU's.
  template <typename T>
  absl::StatusOr<T*> Attached(const std::function<absl::StatusOr<std::unique_ptr<T>>()>& make) {
    std::shared_ptr<void>& slot = attached_[std::type_index(typeid(T))];
    if (slot == nullptr) {
      DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<T> made, make());
      slot = std::move(made);
    }
    return static_cast<T*>(slot.get());
  }

  // An event whose host time is known, from which the times of others are computed.
  struct Anchor;

 private:
  CudaDevice(Driver* driver, const Gpu& gpu, const Context& context, std::string name,
             Stream stream, Pool pool);
  absl::Status SetAnchor() ABSL_LOCKS_EXCLUDED(mutex_);
  // Captures what `work` enqueues.
  absl::StatusOr<Graph> Capture(const std::function<absl::Status()>& work);
  // False where the calling thread records; then the recording fails with the call's name.
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
  absl::Status recording_error_ ABSL_GUARDED_BY(mutex_);  // the first
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Anchor> anchor_ ABSL_GUARDED_BY(mutex_);
};

// The tensor's device, which must be of this kind and no emulation.
CudaDevice& CudaDeviceOf(Device& device);

// "there are 2: GPU 0 (...), GPU 1 (...)".
std::string DescribeGpus(const std::vector<Gpu>& gpus);

// `count` GPUs, from number `first`. FailedPrecondition where there is no GPU; InvalidArgument
// where there are fewer, naming those that there are.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateCudaDevices(Driver* driver, int count,
                                                                       int first = 0);

// GPU 0 divided into `count` virtual GPUs of as many multiprocessors each (partition.h). They share
// its memory and its memory bandwidth.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateVirtualCudaDevices(Driver* driver,
                                                                              int count);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_CUDA_DEVICE_H_
