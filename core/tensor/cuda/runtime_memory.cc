// Memory of the runtime driver: pools, pinned memory, and the work that reads and writes it.
#include <cuda_runtime_api.h>

#include <cstring>

#include "core/tensor/cuda/kernels.h"
#include "core/tensor/cuda/runtime_driver.h"
#include "core/tensor/cuda/sum_tables.h"

namespace dpipe::cuda {

absl::StatusOr<Pool> RuntimeDriver::CreatePool(const Context& context) {
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof(properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, context.gpu};
  Pool pool;
  DPIPE_RETURN_IF_ERROR(WithGpu(context.gpu, [&]() -> absl::Status {
    DPIPE_RUNTIME(cudaMemPoolCreate(&pool, &properties));
    // Without this, every synchronisation would return unused memory to the system.
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

// Calls on pool memory depend on the current GPU, although the stream identifies the GPU.
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
    // Portable: usable by all GPUs of this process.
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
  // With unified addressing, CUDA infers the side of each pointer.
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream),
                         "cudaMemcpyAsync");
  });
}

// Names both GPUs, because another GPU's pool memory cannot be identified by its address alone.
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

absl::Status RuntimeDriver::Delay(int64_t duration_ns, Stream stream) {
  return WithContext(streams_.At(stream),
                     [&] { return RuntimeStatus(cuda::Delay(duration_ns, stream), "Delay"); });
}

absl::Status RuntimeDriver::AddUp(absl::Span<const OrderedSum> sums, Stream stream) {
  return WithContext(streams_.At(stream), [&]() -> absl::Status {
    for (const SumTable& table : SumTablesOf(sums)) {
      DPIPE_RETURN_IF_ERROR(RuntimeStatus(cuda::AddUp(table, stream), "AddUp"));
    }
    return absl::OkStatus();
  });
}

}  // namespace dpipe::cuda
