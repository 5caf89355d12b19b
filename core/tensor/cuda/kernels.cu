#include <cuda_bf16.h>

#include <algorithm>

#include "core/tensor/cuda/kernels.h"

namespace dpipe::cuda {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any GPU; each then strides over the rest.
constexpr int64_t kMaxBlocks = 4096;

__device__ void Put(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }
__device__ void Put(float* to, __nv_bfloat16 value) { *to = __bfloat162float(value); }

template <typename To, typename From>
__global__ void ConvertKernel(To* to, const From* from, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Put(to + i, from[i]);
  }
}

__global__ void __launch_bounds__(SumTable::kThreads)
    AddUpKernel(const __grid_constant__ SumTable table) {
  table.AddUp(blockIdx.x, threadIdx.x);
}

__device__ int64_t NowNs() {
  int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void DelayKernel(int64_t duration_ns) {
  const int64_t begin = NowNs();
  while (NowNs() - begin < duration_ns) __nanosleep(1000);
}

unsigned BlocksFor(int64_t count) {
  return static_cast<unsigned>(std::min(kMaxBlocks, (count + kThreads - 1) / kThreads));
}

// Errors that earlier calls have left to the thread are not the launch's.
void ForgetErrors() { cudaGetLastError(); }

template <typename To, typename From>
void Launch(void* to, const void* from, int64_t count, cudaStream_t stream) {
  ConvertKernel<<<BlocksFor(count), kThreads, 0, stream>>>(static_cast<To*>(to),
                                                           static_cast<const From*>(from), count);
}

}  // namespace

cudaError_t Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                    cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  ForgetErrors();
  if (to_dtype == DType::kBf16 && from_dtype == DType::kF32) {
    Launch<__nv_bfloat16, float>(to, from, count, stream);
  } else if (to_dtype == DType::kF32 && from_dtype == DType::kBf16) {
    Launch<float, __nv_bfloat16>(to, from, count, stream);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t Delay(int64_t duration_ns, cudaStream_t stream) {
  constexpr int64_t kSecond = 1'000'000'000;
  ForgetErrors();
  DelayKernel<<<1, 1, 0, stream>>>(std::min(duration_ns, kSecond));
  return cudaGetLastError();
}

cudaError_t AddUp(const SumTable& table, cudaStream_t stream) {
  ForgetErrors();
  AddUpKernel<<<table.blocks(), SumTable::kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

}  // namespace dpipe::cuda
