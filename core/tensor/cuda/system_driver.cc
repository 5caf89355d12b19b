#include "core/tensor/cuda/system_driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
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

// Error codes that belong to the calling thread stay until they are read.
void Ignore(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
}

// Makes a call for which some context of `gpu` must be current. The calling thread keeps the
// context that it has; where it has none, it goes on with the GPU's primary one, lest the runtime
// should make one on GPU 0 for it.
template <typename Call>
absl::Status WithGpu(int gpu, const Call& call) {
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext before = nullptr;
  DPIPE_DRIVER(cuCtxGetCurrent(&before));
  int current = -1;
  if (before != nullptr) DPIPE_CUDA(cudaGetDevice(&current));
  if (current == gpu) return call();
  DPIPE_CUDA(cudaSetDevice(gpu));
  const absl::Status status = call();
  if (before != nullptr) DPIPE_DRIVER(cuCtxSetCurrent(before));
  return status;
}

class RuntimeDriver : public Driver {
 public:
  absl::StatusOr<std::vector<Gpu>> Gpus() override;
  absl::StatusOr<MultiprocessorRules> Rules(int gpu) override;
  absl::StatusOr<int> NumShares(int gpu, int multiprocessors) override;
  absl::StatusOr<std::vector<Context>> Divide(int gpu, int count, int multiprocessors) override;
  absl::Status MakeCurrent(const Context& context) override;
  absl::StatusOr<Stream> CreateStream(const Context& context) override;
  void DestroyStream(Stream stream) override;
  absl::Status Synchronize(Stream stream) override;
  absl::StatusOr<Event> CreateEvent(const Context& context) override;
  void DestroyEvent(Event event) override { Ignore(cudaEventDestroy(event)); }
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::StatusOr<bool> Done(Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<int64_t> ElapsedNs(Event begin, Event end) override;
  absl::StatusOr<Pool> CreatePool(const Context& context) override;
  void DestroyPool(Pool pool) override { Ignore(cudaMemPoolDestroy(pool)); }
  absl::StatusOr<void*> Allocate(Pool pool, int64_t size_bytes, Stream stream) override;
  absl::Status Free(void* data, Stream stream) override;
  absl::Status Trim(Pool pool) override;
  absl::StatusOr<int64_t> ReservedBytes(Pool pool) override;
  absl::StatusOr<void*> AllocatePinned(int64_t size_bytes) override;
  void FreePinned(void* data) override { Ignore(cudaFreeHost(data)); }
  absl::Status Copy(void* to, const void* from, int64_t size_bytes, Stream stream) override;
  absl::Status CopyBetween(void* to, int to_gpu, const void* from, int from_gpu, int64_t size_bytes,
                           Stream stream) override;
  absl::Status Fill(void* data, int value, int64_t size_bytes, Stream stream) override;
  absl::Status Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                       Stream stream) override;
  absl::Status Accumulate(float* sum, const float* term, int64_t count, Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<Graph> EndCapture(Stream stream) override;
  absl::Status Launch(Graph graph, Stream stream) override;
  void DestroyGraph(Graph graph) override { Ignore(cudaGraphExecDestroy(graph)); }

 private:
  static absl::StatusOr<CUdevResource> MultiprocessorsOf(const DriverApi* api, int gpu);
  static absl::StatusOr<Stream> NewStream(const Context& context);
  // As WithGpu: to calls about memory from a pool it matters which GPU is current, though the
  // stream says where they belong.
  template <typename Call>
  absl::Status WithGpuOf(Stream stream, const Call& call) {
    return WithGpu(GpuOf(stream), call);
  }
  int GpuOf(Stream stream) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::ReaderMutexLock lock(&mutex_);
    return gpu_of_.at(stream);
  }

  absl::Mutex mutex_;
  std::unordered_map<Stream, int> gpu_of_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::vector<Gpu>> RuntimeDriver::Gpus() {
  DPIPE_ASSIGN_OR_RETURN(const int count, CountGpus());
  std::vector<Gpu> gpus(count);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    DPIPE_CUDA(cudaGetDeviceProperties(&properties, i));
    char pci_bus_id[32] = "";
    DPIPE_CUDA(cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), i));
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
  // Makes the primary context, which green contexts share.
  DPIPE_RETURN_IF_ERROR(
      WithGpu(gpu, [] { return CudaStatus(cudaFree(nullptr), "cudaFree(nullptr)"); }));
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
    DPIPE_CUDA(cudaSetDevice(context.gpu));
    return absl::OkStatus();
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  CUcontext current;
  DPIPE_DRIVER(cuCtxFromGreenCtx(&current, static_cast<CUgreenCtx>(context.green)));
  DPIPE_DRIVER(cuCtxSetCurrent(current));
  return absl::OkStatus();
}

absl::StatusOr<Stream> RuntimeDriver::CreateStream(const Context& context) {
  DPIPE_ASSIGN_OR_RETURN(const Stream stream, NewStream(context));
  absl::MutexLock lock(&mutex_);
  gpu_of_[stream] = context.gpu;
  return stream;
}

void RuntimeDriver::DestroyStream(Stream stream) {
  {
    absl::MutexLock lock(&mutex_);
    gpu_of_.erase(stream);
  }
  Ignore(cudaStreamDestroy(stream));
}

absl::StatusOr<Stream> RuntimeDriver::NewStream(const Context& context) {
  Stream stream;
  if (context.green == nullptr) {
    DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&]() -> absl::Status {
      DPIPE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
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
  DPIPE_CUDA(cudaStreamSynchronize(stream));
  return absl::OkStatus();
}

// Events belong to a GPU's primary context, whichever of its green contexts records them.
absl::StatusOr<Event> RuntimeDriver::CreateEvent(const Context& context) {
  Event event;
  DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&]() -> absl::Status {
    DPIPE_CUDA(cudaEventCreate(&event));
    return absl::OkStatus();
  }));
  return event;
}

absl::Status RuntimeDriver::Record(Event event, Stream stream) {
  DPIPE_CUDA(cudaEventRecord(event, stream));
  return absl::OkStatus();
}

absl::Status RuntimeDriver::Wait(Stream stream, Event event) {
  DPIPE_CUDA(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault));
  return absl::OkStatus();
}

absl::StatusOr<bool> RuntimeDriver::Done(Event event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  DPIPE_RETURN_IF_ERROR(CudaStatus(error, "cudaEventQuery(event)"));
  return true;
}

absl::Status RuntimeDriver::Synchronize(Event event) {
  DPIPE_CUDA(cudaEventSynchronize(event));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RuntimeDriver::ElapsedNs(Event begin, Event end) {
  float milliseconds = 0;
  DPIPE_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return std::llround(double{milliseconds} * 1e6);
}

absl::StatusOr<Pool> RuntimeDriver::CreatePool(const Context& context) {
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof(properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, context.gpu};
  Pool pool;
  DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&]() -> absl::Status {
    DPIPE_CUDA(cudaMemPoolCreate(&pool, &properties));
    return absl::OkStatus();
  }));
  // Without this every synchronisation would give unused memory back to the system.
  uint64_t keep_all = UINT64_MAX;
  DPIPE_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  return pool;
}

absl::StatusOr<void*> RuntimeDriver::Allocate(Pool pool, int64_t size_bytes, Stream stream) {
  void* data = nullptr;
  DPIPE_RETURN_IF_ERROR(WithGpuOf(stream, [&] {
    const cudaError_t error = cudaMallocFromPoolAsync(&data, size_bytes, pool, stream);
    if (error != cudaSuccess) cudaGetLastError();
    return CudaStatus(error, "cudaMallocFromPoolAsync");
  }));
  return data;
}

absl::Status RuntimeDriver::Free(void* data, Stream stream) {
  return WithGpuOf(stream,
                   [&] { return CudaStatus(cudaFreeAsync(data, stream), "cudaFreeAsync"); });
}

absl::Status RuntimeDriver::Trim(Pool pool) {
  DPIPE_CUDA(cudaMemPoolTrimTo(pool, 0));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RuntimeDriver::ReservedBytes(Pool pool) {
  uint64_t bytes = 0;
  DPIPE_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<void*> RuntimeDriver::AllocatePinned(int64_t size_bytes) {
  void* data = nullptr;
  // Portable: for every GPU of this process.
  DPIPE_CUDA(cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable));
  return data;
}

absl::Status RuntimeDriver::Copy(void* to, const void* from, int64_t size_bytes, Stream stream) {
  // Unified addressing tells on which side each pointer lies.
  return WithGpuOf(stream, [&] {
    return CudaStatus(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream),
                      "cudaMemcpyAsync");
  });
}

// Named, since another GPU's memory from a pool is not found by its address alone.
absl::Status RuntimeDriver::CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                        int64_t size_bytes, Stream stream) {
  return WithGpuOf(stream, [&] {
    return CudaStatus(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, size_bytes, stream),
                      "cudaMemcpyPeerAsync");
  });
}

absl::Status RuntimeDriver::Fill(void* data, int value, int64_t size_bytes, Stream stream) {
  return WithGpuOf(stream, [&] {
    return CudaStatus(cudaMemsetAsync(data, value, size_bytes, stream), "cudaMemsetAsync");
  });
}

absl::Status RuntimeDriver::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                                    int64_t count, Stream stream) {
  DPIPE_CUDA(cuda::Convert(to, to_dtype, from, from_dtype, count, stream));
  return absl::OkStatus();
}

absl::Status RuntimeDriver::Accumulate(float* sum, const float* term, int64_t count,
                                       Stream stream) {
  DPIPE_CUDA(cuda::Accumulate(sum, term, count, stream));
  return absl::OkStatus();
}

// Other threads of the process go on using their streams while this one records.
absl::Status RuntimeDriver::BeginCapture(Stream stream) {
  DPIPE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  return absl::OkStatus();
}

absl::StatusOr<Graph> RuntimeDriver::EndCapture(Stream stream) {
  cudaGraph_t recorded = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &recorded);
  if (ended != cudaSuccess) {
    cudaGetLastError();
    if (recorded != nullptr) Ignore(cudaGraphDestroy(recorded));
    return CudaStatus(ended, "cudaStreamEndCapture(stream)");
  }
  Graph graph = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&graph, recorded, 0);
  if (made != cudaSuccess) cudaGetLastError();
  Ignore(cudaGraphDestroy(recorded));
  DPIPE_RETURN_IF_ERROR(CudaStatus(made, "cudaGraphInstantiate"));
  return graph;
}

absl::Status RuntimeDriver::Launch(Graph graph, Stream stream) {
  DPIPE_CUDA(cudaGraphLaunch(graph, stream));
  return absl::OkStatus();
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
