// The language of our kernels: CUDA if compiled by nvcc, and fibers on the CPU (emulation.h), from
// the same source.
//
// A kernel is a struct. Its members are its arguments, and each thread runs its operator(). The
// functions below give its position, barriers, shuffles and shared memory. A kernel is
// deterministic: it never adds atomically, so that every sum has one order.
//
//   template <typename T>
//   struct Negate {
//     const T* x;
//     T* y;
//     int64_t n;
//     DPIPE_KERNEL_FUNCTION void operator()() const {
//       const int64_t i = ThreadOfAll();
//       if (i < n) Store(y + i, -Load(x + i));
//     }
//   };
//   Launch(stream, BlocksFor(n), Negate<float>{x, y, n});
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_KERNEL_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_KERNEL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/check.h"
#include "core/ops/cuda/emulated_gpu/emulation.h"
#include "core/tensor/cuda/host_queue.h"

#if defined(__CUDACC__)
#define DPIPE_KERNEL_FUNCTION __host__ __device__ __forceinline__
#else
#define DPIPE_KERNEL_FUNCTION inline
#endif

// Before a loop whose arrays should stay in registers.
#if defined(__CUDA_ARCH__)
#define DPIPE_UNROLL _Pragma("unroll")
#else
#define DPIPE_UNROLL
#endif

// An array that a block's threads share: `name` becomes a pointer to `count` elements.
#if defined(__CUDA_ARCH__)
#define DPIPE_SHARED(type, name, count) __shared__ type name[count]
#else
#define DPIPE_SHARED(type, name, count) \
  static char name##_site;              \
  type* const name = static_cast<type*>(emulation::Shared(&name##_site, sizeof(type) * (count)))
#endif

namespace dpipe::ops::cuda {

// The stream of a kernel: a cudaStream_t or, in emulation, the calling thread, at once or in the
// order of a queue's stream.
struct Stream {
  void* handle = nullptr;
  bool emulated = false;
  dpipe::cuda::HostQueue* queue = nullptr;  // null: at once
};

// Threads per block.
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kWarps = kThreads / kWarp;

// Returns the number of blocks with at least n threads. Threads are counted in 32 bits.
inline uint32_t BlocksFor(int64_t n) {
  DPIPE_CHECK(n >= 0 && n < (int64_t{1} << 32) - kThreads) << "a kernel of " << n << " threads";
  return static_cast<uint32_t>((n + kThreads - 1) / kThreads);
}

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ uint32_t Thread() { return threadIdx.x; }
__device__ __forceinline__ uint32_t Block() { return blockIdx.x; }
__device__ __forceinline__ void Barrier() { __syncthreads(); }
__device__ __forceinline__ void WarpBarrier() { __syncwarp(); }
template <typename T>
__device__ __forceinline__ T LaneXor(T value, uint32_t mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
#else
DPIPE_KERNEL_FUNCTION uint32_t Thread() { return emulation::Here().thread; }
DPIPE_KERNEL_FUNCTION uint32_t Block() { return emulation::Here().block; }
// Waits until all threads of the block have arrived. All then see earlier writes.
DPIPE_KERNEL_FUNCTION void Barrier() { emulation::Barrier(); }
// The same for the lanes of a warp. A shuffle is not a barrier: it does not order reads and writes.
DPIPE_KERNEL_FUNCTION void WarpBarrier() { emulation::ExchangeXor(0, 0); }
// Returns the value (float or double) of lane (own ^ mask) of the warp. All lanes must call it
// together.
template <typename T>
DPIPE_KERNEL_FUNCTION T LaneXor(T value, uint32_t mask) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(value));
  bits = emulation::ExchangeXor(bits, mask);
  memcpy(&value, &bits, sizeof(value));
  return value;
}
#endif

DPIPE_KERNEL_FUNCTION uint32_t ThreadOfAll() { return Block() * kThreads + Thread(); }

template <typename Kernel>
void RunThread(const void* kernel) {
  (*static_cast<const Kernel*>(kernel))();
}

// Blocks of a kernel that must fit on a multiprocessor at once, if its struct defines
// kBlocksAtOnce. The compiler then limits registers accordingly. 0: it chooses freely.
template <typename Kernel, typename = void>
constexpr int kBlocksOf = 0;
template <typename Kernel>
constexpr int kBlocksOf<Kernel, std::void_t<decltype(Kernel::kBlocksAtOnce)>> =
    Kernel::kBlocksAtOnce;

#if defined(__CUDACC__)
template <typename Kernel>
__global__ void __launch_bounds__(kThreads, kBlocksOf<Kernel>)
    RunOnGpu(const __grid_constant__ Kernel kernel) {
  kernel();
}
template <typename Kernel>
void LaunchOnGpu(const Stream& stream, uint32_t blocks, const Kernel& kernel) {
  RunOnGpu<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(kernel);
}
#else
// Never called: a build without CUDA has only emulated streams.
template <typename Kernel>
void LaunchOnGpu(const Stream&, uint32_t, const Kernel&) {}
#endif

// Enqueues `blocks` (below 2^24) blocks of kThreads threads; does nothing for 0. Errors are
// reported by LastLaunchError.
template <typename Kernel>
void Launch(const Stream& stream, uint32_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  if (stream.queue != nullptr) {
    EnqueueWith(stream.queue, stream.handle, kernel, [blocks](const Kernel& arguments) {
      emulation::Run(blocks, kThreads, &RunThread<Kernel>, &arguments);
    });
  } else if (stream.emulated) {
    emulation::Run(blocks, kThreads, &RunThread<Kernel>, &kernel);
  } else {
    LaunchOnGpu(stream, blocks, kernel);
  }
}

// Sums over a warp and over a block have an order independent of timing: lanes pairwise, by
// distances that halve from 16 to 1, then the warps in order.
//
// Returns the sum over the lanes of a warp, with the same bits in each.
template <typename T>
DPIPE_KERNEL_FUNCTION T WarpSum(T value) {
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) value += LaneXor(value, mask);
  return value;
}

// Returns the maximum, ignoring NaNs.
DPIPE_KERNEL_FUNCTION float WarpMax(float value) {
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) value = fmaxf(value, LaneXor(value, mask));
  return value;
}

// Returns the sum over a block's threads in each of them.
template <typename T>
DPIPE_KERNEL_FUNCTION T BlockSum(T value) {
  DPIPE_SHARED(T, of_warp, kWarps);
  value = WarpSum(value);
  if (Thread() % kWarp == 0) of_warp[Thread() / kWarp] = value;
  Barrier();
  T sum = of_warp[0];
  for (uint32_t w = 1; w < kWarps; ++w) sum += of_warp[w];
  Barrier();  // before anyone overwrites it
  return sum;
}

// Returns the error of the calling thread's launches since the last call, or null. Null without
// CUDA.
const char* LastLaunchError();

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_KERNEL_H_
