// Runs kernels on the CPU, so that their code can be tested without a GPU.
//
// A block's threads are fibers of the calling thread. A fiber runs until it ends or waits at a
// barrier or a shuffle; then the next one runs. The order of threads and of blocks is drawn from a
// seed, so that a kernel with a race gives different results for different seeds. Shared memory is
// filled with NaNs before a block begins. Each shared array is a separate allocation, whose bounds
// the address sanitizer checks. If not all threads of a block reach a barrier, or not all lanes of
// a warp a shuffle, the process ends and reports the positions of both threads.
//
// Kernels do not call these functions directly but use kernel.h's, which are the hardware's on a
// GPU.
#ifndef DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATION_H_
#define DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATION_H_

#include <cstddef>
#include <cstdint>

namespace dpipe::ops::cuda::emulation {

// Sets the order in which blocks and threads run in later launches of the calling thread. 0:
// increasing.
void SetOrder(uint64_t seed);

// Calls thread(kernel) as every thread of `blocks` blocks of `threads` threads, a multiple of 32 up
// to 1024. Returns when all have ended.
void Run(uint32_t blocks, uint32_t threads, void (*thread)(const void*), const void* kernel);

// The following are called by threads of kernels.
struct Position {
  uint32_t thread = 0;
  uint32_t block = 0;
  uint32_t blocks = 0;
};
const Position& Here();
// __syncthreads.
void Barrier();
// Exchanges bits with lane `lane ^ mask` of the warp, and returns that lane's.
uint64_t ExchangeXor(uint64_t bits, uint32_t mask);
// Returns the block's array for the declaration at `site`; the same in all threads and calls.
void* Shared(const void* site, size_t size_bytes);

}  // namespace dpipe::ops::cuda::emulation

#endif  // DPIPE_CORE_OPS_CUDA_EMULATED_GPU_EMULATION_H_
