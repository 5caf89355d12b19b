// The driver for this machine's GPUs (system_driver.h). It uses the CUDA runtime, and the CUDA
// driver for features that the runtime lacks, above all virtual GPUs.
//
//   runtime_contexts.cc   GPUs, their division into green contexts, and the context that is current
//                         during a call
//   runtime_streams.cc    streams, events, captures and graphs
//   runtime_memory.cc     pools, pinned memory, copies, and our own kernels
#ifndef DPIPE_CORE_TENSOR_CUDA_RUNTIME_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_RUNTIME_DRIVER_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/cuda/cuda_status.h"
#include "core/cuda/driver_api.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Turn errors of CUDA driver and runtime calls into statuses that name the call.
absl::Status DriverStatus(const DriverApi& api, CUresult result, absl::string_view call);

// The runtime also stores an error in a slot of the calling thread. This clears it, so that a later
// check for launch errors does not mistake it for one.
inline absl::Status RuntimeStatus(cudaError_t error, absl::string_view call) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(error, call);
}

// For use in functions that return a status. DPIPE_DRIVER expects a DriverApi named `api` in scope.
#define DPIPE_DRIVER(call) DPIPE_RETURN_IF_ERROR(DriverStatus(*api, api->call, #call))
#define DPIPE_RUNTIME(call) DPIPE_RETURN_IF_ERROR(RuntimeStatus((call), #call))

// The GPU and context in which a stream, an event, a pool, a graph or pinned memory was created.
struct Place {
  int gpu = 0;
  CUcontext own = nullptr;  // only of streams: the context for launches of kernels
};

// The places of all handles of one kind. Thread-safe.
template <typename Handle>
class Places {
 public:
  void Put(Handle handle, const Place& place) {
    absl::MutexLock lock(&mutex_);
    places_[handle] = place;
  }
  Place At(Handle handle) const {
    absl::ReaderMutexLock lock(&mutex_);
    return places_.at(handle);
  }
  // Removes the handle and returns its place.
  Place Take(Handle handle) {
    absl::MutexLock lock(&mutex_);
    return places_.extract(handle).mapped();
  }

 private:
  mutable absl::Mutex mutex_;
  std::unordered_map<Handle, Place> places_ ABSL_GUARDED_BY(mutex_);
};

// Makes sure that every call has a context of its GPU current. Otherwise, for a thread without a
// context, the runtime would create one on GPU 0, which costs hundreds of megabytes there. The
// calling thread keeps its context. If it has none, it is left with the primary context of the
// first GPU that it has called.
class RuntimeDriver : public Driver {
 public:
  absl::StatusOr<std::vector<Gpu>> Gpus() override;
  absl::StatusOr<MultiprocessorRules> Rules(int gpu) override;
  absl::StatusOr<int> NumShares(int gpu, int multiprocessors) override;
  absl::StatusOr<std::vector<Context>> Divide(int gpu, int count, int multiprocessors) override;
  absl::Status MakeCurrent(const Context& context) override;
  void Within(const Context& context, const std::function<void()>& work) override;
  absl::StatusOr<Stream> CreateStream(const Context& context) override;
  void DestroyStream(Stream stream) override;
  absl::Status Synchronize(Stream stream) override;
  absl::StatusOr<Event> CreateEvent(const Context& context) override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::StatusOr<bool> Done(Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<int64_t> ElapsedNs(Event begin, Event end) override;
  absl::StatusOr<Pool> CreatePool(const Context& context) override;
  void DestroyPool(Pool pool) override;
  absl::StatusOr<void*> Allocate(Pool pool, int64_t size_bytes, Stream stream) override;
  absl::Status Free(void* data, Stream stream) override;
  absl::Status Trim(Pool pool) override;
  absl::StatusOr<int64_t> ReservedBytes(Pool pool) override;
  absl::StatusOr<void*> AllocatePinned(const Context& context, int64_t size_bytes) override;
  void FreePinned(void* data) override;
  absl::Status Copy(void* to, const void* from, int64_t size_bytes, Stream stream) override;
  absl::Status CopyBetween(void* to, int to_gpu, const void* from, int from_gpu, int64_t size_bytes,
                           Stream stream) override;
  absl::Status Fill(void* data, int value, int64_t size_bytes, Stream stream) override;
  absl::Status Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                       Stream stream) override;
  absl::Status AddUp(absl::Span<const OrderedSum> sums, Stream stream) override;
  absl::Status Delay(int64_t duration_ns, Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<Graph> EndCapture(Stream stream) override;
  void DropCapture(Stream stream) override;
  absl::Status Launch(Graph graph, Stream stream) override;
  void DestroyGraph(Graph graph) override;

 private:
  absl::StatusOr<CUdevResource> MultiprocessorsOf(const DriverApi* api, int gpu);
  absl::StatusOr<Stream> NewStream(const Context& context);
  // Returns the primary context of the GPU, which is created if necessary.
  absl::StatusOr<CUcontext> Primary(int gpu) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CUcontext> Own(const Context& context);

  // Makes a call that needs the primary context of `gpu` to be current.
  template <typename Call>
  absl::Status WithPrimary(int gpu, const Call& call);
  // Makes a call that needs any context of `gpu` to be current: its primary one, or a share's.
  template <typename Call>
  absl::Status WithGpu(int gpu, const Call& call);
  template <typename Call>
  absl::Status WithGpuOf(Stream stream, const Call& call) {
    return WithGpu(streams_.At(stream).gpu, call);
  }
  // Makes a call that needs the place's own context, or the primary one of its GPU, to be current:
  // launches of kernels.
  template <typename Call>
  absl::Status WithContext(const Place& place, const Call& call);

  Places<Stream> streams_;
  Places<Event> events_;
  Places<Pool> pools_;
  Places<Graph> graphs_;
  Places<void*> pinned_;
  absl::Mutex mutex_;
  std::unordered_map<int, CUcontext> primaries_ ABSL_GUARDED_BY(mutex_);  // by GPU
};

template <typename Call>
absl::Status RuntimeDriver::WithPrimary(int gpu, const Call& call) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  DPIPE_ASSIGN_OR_RETURN(const CUcontext primary, Primary(gpu));
  if (before == primary) return call();
  DPIPE_DRIVER(cuCtxSetCurrent(primary));
  absl::Status status = call();
  if (before != nullptr) {
    status.Update(DriverStatus(*api, api->cuCtxSetCurrent(before), "cuCtxSetCurrent(before)"));
  }
  return status;
}

template <typename Call>
absl::Status RuntimeDriver::WithGpu(int gpu, const Call& call) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  int current = -1;
  if (before != nullptr) DPIPE_RUNTIME(cudaGetDevice(&current));
  return current == gpu ? call() : WithPrimary(gpu, call);
}

template <typename Call>
absl::Status RuntimeDriver::WithContext(const Place& place, const Call& call) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  return before != nullptr && before == place.own ? call() : WithPrimary(place.gpu, call);
}

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_RUNTIME_DRIVER_H_
