#include "core/tensor/cuda/system_driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/cuda/cuda_status.h"
#include "core/cuda/driver_api.h"
#include "core/tensor/cuda/kernels.h"

namespace dpipe::cuda {
namespace {

absl::Status DriverStatus(const DriverApi& api, CUresult result, absl::string_view call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &text);
  const auto code = result == CUDA_ERROR_NOT_SUPPORTED ? absl::StatusCode::kUnimplemented
                                                       : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(call, ": ", name != nullptr ? name : "unknown error", ": ",
                                         text != nullptr ? text : ""));
}

#define DPIPE_DRIVER(call) DPIPE_RETURN_IF_ERROR(DriverStatus(*api, api->call, #call))

// The runtime leaves an error in the calling thread's slot, too, where whoever looks for an error
// of a kernel's launch would take it for that.
absl::Status RuntimeStatus(cudaError_t error, absl::string_view call) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(error, call);
}

#define DPIPE_RUNTIME(call) DPIPE_RETURN_IF_ERROR(RuntimeStatus((call), #call))

// Where a stream, an event, a pool, a graph or pinned memory was made.
struct Place {
  int gpu = 0;
  CUcontext own = nullptr;  // of a stream: the one that its kernels are launched in
};

// Of all handles of a kind. Thread-safe.
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
  // Forgets it.
  Place Take(Handle handle) {
    absl::MutexLock lock(&mutex_);
    return places_.extract(handle).mapped();
  }

 private:
  mutable absl::Mutex mutex_;
  std::unordered_map<Handle, Place> places_ ABSL_GUARDED_BY(mutex_);
};

// Every call has a context of its GPU current: the runtime would else make one on GPU 0 for a
// thread that has none, and hundreds of megabytes there. The calling thread keeps the context that
// it has; where it has none, it goes on with the primary one of the GPU that it has called first.
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
  absl::Status Accumulate(float* sum, const float* term, int64_t count, Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<Graph> EndCapture(Stream stream) override;
  void DropCapture(Stream stream) override;
  absl::Status Launch(Graph graph, Stream stream) override;
  void DestroyGraph(Graph graph) override;

 private:
  absl::StatusOr<CUdevResource> MultiprocessorsOf(const DriverApi* api, int gpu);
  absl::StatusOr<Stream> NewStream(const Context& context);
  // Made where there was none.
  absl::StatusOr<CUcontext> Primary(int gpu) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CUcontext> Own(const Context& context);

  // Makes a call for which the primary context of `gpu` must be current.
  template <typename Call>
  absl::Status WithPrimary(int gpu, const Call& call);
  // For which any context of `gpu` must be: its primary one, or a share's.
  template <typename Call>
  absl::Status WithGpu(int gpu, const Call& call);
  template <typename Call>
  absl::Status WithGpuOf(Stream stream, const Call& call) {
    return WithGpu(streams_.At(stream).gpu, call);
  }
  // For which the place's own one must be, or the primary one of its GPU: launches of kernels.
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

absl::StatusOr<CUcontext> RuntimeDriver::Primary(int gpu) {
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (const auto it = primaries_.find(gpu); it != primaries_.end()) return it->second;
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr, primary = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  DPIPE_RUNTIME(cudaSetDevice(gpu));
  DPIPE_RUNTIME(cudaFree(nullptr));  // makes it
  DPIPE_DRIVER(cuCtxGetCurrent(&primary));
  if (before != nullptr) DPIPE_DRIVER(cuCtxSetCurrent(before));
  absl::MutexLock lock(&mutex_);
  primaries_[gpu] = primary;
  return primary;
}

absl::StatusOr<CUcontext> RuntimeDriver::Own(const Context& context) {
  if (context.green == nullptr) return Primary(context.gpu);
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext own;
  DPIPE_DRIVER(cuCtxFromGreenCtx(&own, static_cast<CUgreenCtx>(context.green)));
  return own;
}

absl::StatusOr<std::vector<Gpu>> RuntimeDriver::Gpus() {
  DPIPE_ASSIGN_OR_RETURN(const int count, CountGpus());
  std::vector<Gpu> gpus(count);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    DPIPE_RUNTIME(cudaGetDeviceProperties(&properties, i));
    char pci_bus_id[32] = "";
    DPIPE_RUNTIME(cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), i));
    gpus[i] = {i,
               properties.name,
               properties.major,
               properties.minor,
               properties.multiProcessorCount,
               static_cast<int64_t>(properties.totalGlobalMem),
               pci_bus_id};
  }
  return gpus;
}

absl::StatusOr<CUdevResource> RuntimeDriver::MultiprocessorsOf(const DriverApi* api, int gpu) {
  DPIPE_RETURN_IF_ERROR(Primary(gpu).status());  // which green contexts share
  CUdevice device;
  DPIPE_DRIVER(cuDeviceGet(&device, gpu));
  CUdevResource all;
  DPIPE_DRIVER(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  return all;
}

absl::StatusOr<MultiprocessorRules> RuntimeDriver::Rules(int gpu) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  return MultiprocessorRules{static_cast<int>(all.sm.smCount),
                             static_cast<int>(all.sm.minSmPartitionSize),
                             static_cast<int>(all.sm.smCoscheduledAlignment)};
}

absl::StatusOr<int> RuntimeDriver::NumShares(int gpu, int multiprocessors) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  unsigned groups = 0;
  DPIPE_DRIVER(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, multiprocessors));
  return static_cast<int>(groups);
}

absl::StatusOr<std::vector<Context>> RuntimeDriver::Divide(int gpu, int count,
                                                           int multiprocessors) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUdevResource all, MultiprocessorsOf(api, gpu));
  CUdevice device;
  DPIPE_DRIVER(cuDeviceGet(&device, gpu));
  std::vector<CUdevResource> shares(count);
  unsigned groups = count;
  CUdevResource rest;
  DPIPE_DRIVER(
      cuDevSmResourceSplitByCount(shares.data(), &groups, &all, &rest, 0, multiprocessors));
  if (static_cast<int>(groups) != count) {
    return absl::InternalError(absl::StrCat("GPU ", gpu, " was to be divided into ", count,
                                            " shares of ", multiprocessors,
                                            " multiprocessors, and gave ", groups));
  }
  std::vector<Context> contexts;
  for (CUdevResource& share : shares) {
    CUdevResourceDesc description;
    DPIPE_DRIVER(cuDevResourceGenerateDesc(&description, &share, 1));
    CUgreenCtx green;
    DPIPE_DRIVER(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    contexts.push_back({gpu, static_cast<int>(share.sm.smCount), green});
  }
  return contexts;
}

absl::Status RuntimeDriver::MakeCurrent(const Context& context) {
  if (context.green == nullptr) {
    DPIPE_RUNTIME(cudaSetDevice(context.gpu));
    return absl::OkStatus();
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_ASSIGN_OR_RETURN(const CUcontext own, Own(context));
  DPIPE_DRIVER(cuCtxSetCurrent(own));
  return absl::OkStatus();
}

void RuntimeDriver::Within(const Context& context, const std::function<void()>& work) {
  const absl::StatusOr<CUcontext> own = Own(context);
  bool called = false;
  WithContext({context.gpu, own.ok() ? *own : nullptr}, [&] {
    called = true;
    work();
    return absl::OkStatus();
  }).IgnoreError();
  if (!called) work();
}

absl::StatusOr<Stream> RuntimeDriver::CreateStream(const Context& context) {
  DPIPE_ASSIGN_OR_RETURN(const CUcontext own, Own(context));
  DPIPE_ASSIGN_OR_RETURN(const Stream stream, NewStream(context));
  streams_.Put(stream, {context.gpu, own});
  return stream;
}

void RuntimeDriver::DestroyStream(Stream stream) {
  WithGpu(streams_.Take(stream).gpu, [&] {
    return RuntimeStatus(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }).IgnoreError();
}

absl::StatusOr<Stream> RuntimeDriver::NewStream(const Context& context) {
  Stream stream;
  if (context.green == nullptr) {
    DPIPE_RETURN_IF_ERROR(WithPrimary(context.gpu, [&]() -> absl::Status {
      DPIPE_RUNTIME(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      return absl::OkStatus();
    }));
    return stream;
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_DRIVER(cuGreenCtxStreamCreate(&stream, static_cast<CUgreenCtx>(context.green),
                                      CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

absl::Status RuntimeDriver::Synchronize(Stream stream) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  });
}

// An event and the streams that record it must be of the same context, which for those of green
// contexts means the primary one that they share (cuEventRecord, cuGreenCtxRecordEvent,
// cuStreamGetCtx_v2). The calling thread's may be any share's, and the context's own may be another
// thread's at the time.
absl::StatusOr<Event> RuntimeDriver::CreateEvent(const Context& context) {
  Event event;
  DPIPE_RETURN_IF_ERROR(WithPrimary(context.gpu, [&]() -> absl::Status {
    DPIPE_RUNTIME(cudaEventCreate(&event));
    return absl::OkStatus();
  }));
  events_.Put(event, {context.gpu});
  return event;
}

void RuntimeDriver::DestroyEvent(Event event) {
  WithGpu(events_.Take(event).gpu, [&] {
    return RuntimeStatus(cudaEventDestroy(event), "cudaEventDestroy");
  }).IgnoreError();
}

absl::Status RuntimeDriver::Record(Event event, Stream stream) {
  return WithGpuOf(
      stream, [&] { return RuntimeStatus(cudaEventRecord(event, stream), "cudaEventRecord"); });
}

absl::Status RuntimeDriver::Wait(Stream stream, Event event) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault),
                         "cudaStreamWaitEvent");
  });
}

absl::StatusOr<bool> RuntimeDriver::Done(Event event) {
  bool done = false;
  DPIPE_RETURN_IF_ERROR(WithGpu(events_.At(event).gpu, [&] {
    const cudaError_t error = cudaEventQuery(event);
    done = error != cudaErrorNotReady;
    const absl::Status status = RuntimeStatus(error, "cudaEventQuery");
    return done ? status : absl::OkStatus();
  }));
  return done;
}

absl::Status RuntimeDriver::Synchronize(Event event) {
  return WithGpu(events_.At(event).gpu, [&] {
    return RuntimeStatus(cudaEventSynchronize(event), "cudaEventSynchronize");
  });
}

absl::StatusOr<int64_t> RuntimeDriver::ElapsedNs(Event begin, Event end) {
  float milliseconds = 0;
  DPIPE_RETURN_IF_ERROR(WithGpu(events_.At(end).gpu, [&] {
    return RuntimeStatus(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  }));
  return std::llround(double{milliseconds} * 1e6);
}

absl::StatusOr<Pool> RuntimeDriver::CreatePool(const Context& context) {
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof(properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, context.gpu};
  Pool pool;
  DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&]() -> absl::Status {
    DPIPE_RUNTIME(cudaMemPoolCreate(&pool, &properties));
    // Without this every synchronisation would give unused memory back to the system.
    uint64_t keep_all = UINT64_MAX;
    DPIPE_RUNTIME(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
    return absl::OkStatus();
  }));
  pools_.Put(pool, {context.gpu});
  return pool;
}

void RuntimeDriver::DestroyPool(Pool pool) {
  WithGpu(pools_.Take(pool).gpu, [&] {
    return RuntimeStatus(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  }).IgnoreError();
}

// To calls about memory from a pool it matters which GPU is current, though the stream says where
// they belong.
absl::StatusOr<void*> RuntimeDriver::Allocate(Pool pool, int64_t size_bytes, Stream stream) {
  void* data = nullptr;
  DPIPE_RETURN_IF_ERROR(WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaMallocFromPoolAsync(&data, size_bytes, pool, stream),
                         "cudaMallocFromPoolAsync");
  }));
  return data;
}

absl::Status RuntimeDriver::Free(void* data, Stream stream) {
  return WithGpuOf(stream,
                   [&] { return RuntimeStatus(cudaFreeAsync(data, stream), "cudaFreeAsync"); });
}

absl::Status RuntimeDriver::Trim(Pool pool) {
  return WithGpu(pools_.At(pool).gpu,
                 [&] { return RuntimeStatus(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo"); });
}

absl::StatusOr<int64_t> RuntimeDriver::ReservedBytes(Pool pool) {
  uint64_t bytes = 0;
  DPIPE_RETURN_IF_ERROR(WithGpu(pools_.At(pool).gpu, [&] {
    return RuntimeStatus(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes),
                         "cudaMemPoolGetAttribute");
  }));
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<void*> RuntimeDriver::AllocatePinned(const Context& context, int64_t size_bytes) {
  void* data = nullptr;
  DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&] {
    // Portable: for every GPU of this process.
    return RuntimeStatus(cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable), "cudaHostAlloc");
  }));
  pinned_.Put(data, {context.gpu});
  return data;
}

void RuntimeDriver::FreePinned(void* data) {
  WithGpu(pinned_.Take(data).gpu, [&] {
    return RuntimeStatus(cudaFreeHost(data), "cudaFreeHost");
  }).IgnoreError();
}

absl::Status RuntimeDriver::Copy(void* to, const void* from, int64_t size_bytes, Stream stream) {
  // Unified addressing tells on which side each pointer lies.
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream),
                         "cudaMemcpyAsync");
  });
}

// Named, since another GPU's memory from a pool is not found by its address alone.
absl::Status RuntimeDriver::CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                        int64_t size_bytes, Stream stream) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, size_bytes, stream),
                         "cudaMemcpyPeerAsync");
  });
}

absl::Status RuntimeDriver::Fill(void* data, int value, int64_t size_bytes, Stream stream) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaMemsetAsync(data, value, size_bytes, stream), "cudaMemsetAsync");
  });
}

absl::Status RuntimeDriver::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                                    int64_t count, Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cuda::Convert(to, to_dtype, from, from_dtype, count, stream), "Convert");
  });
}

absl::Status RuntimeDriver::Accumulate(float* sum, const float* term, int64_t count,
                                       Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cuda::Accumulate(sum, term, count, stream), "Accumulate");
  });
}

// Other threads of the process go on using their streams while this one records.
absl::Status RuntimeDriver::BeginCapture(Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture");
  });
}

// The stream runs again when the capture has ended, and so can upload what it has given.
absl::StatusOr<Graph> RuntimeDriver::EndCapture(Stream stream) {
  const Place place = streams_.At(stream);
  Graph graph = nullptr;
  const absl::Status status = WithContext(place, [&]() -> absl::Status {
    cudaGraph_t recorded = nullptr;
    DPIPE_RUNTIME(cudaStreamEndCapture(stream, &recorded));
    absl::Status made =
        RuntimeStatus(cudaGraphInstantiate(&graph, recorded, 0), "cudaGraphInstantiate");
    RuntimeStatus(cudaGraphDestroy(recorded), "cudaGraphDestroy").IgnoreError();
    DPIPE_RETURN_IF_ERROR(made);
    made = RuntimeStatus(cudaGraphUpload(graph, stream), "cudaGraphUpload");
    if (!made.ok()) RuntimeStatus(cudaGraphExecDestroy(graph), "").IgnoreError();
    return made;
  });
  // What kernels whose launch was not captured have left to the thread.
  cudaGetLastError();
  DPIPE_RETURN_IF_ERROR(status);
  graphs_.Put(graph, place);
  return graph;
}

void RuntimeDriver::DropCapture(Stream stream) {
  WithContext(streams_.At(stream), [&]() -> absl::Status {
    cudaGraph_t recorded = nullptr;
    DPIPE_RUNTIME(cudaStreamEndCapture(stream, &recorded));
    return RuntimeStatus(cudaGraphDestroy(recorded), "cudaGraphDestroy");
  }).IgnoreError();
  cudaGetLastError();
}

absl::Status RuntimeDriver::Launch(Graph graph, Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  });
}

void RuntimeDriver::DestroyGraph(Graph graph) {
  WithGpu(graphs_.Take(graph).gpu, [&] {
    return RuntimeStatus(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  }).IgnoreError();
}

}  // namespace

absl::StatusOr<Driver*> SystemDriver() {
  // Read when CUDA is first used. Streams share the GPU's hardware queues, 8 by default, and those
  // that share one wait for each other: fewer than the streams of some virtual GPUs.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  static RuntimeDriver* const driver = new RuntimeDriver;
  DPIPE_RETURN_IF_ERROR(CountGpus().status());
  return static_cast<Driver*>(driver);
}

}  // namespace dpipe::cuda
