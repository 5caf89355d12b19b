// Runs kernels on the CPU, so that their code is tested where there is no GPU.
//
// A block's threads are fibers of the calling thread. One runs until it has to wait, at a barrier
// or a shuffle, or ends; then the next one does. In which order is drawn from a seed, and so is the
// order of blocks: a kernel that races gives other results under another seed. Shared memory is
// filled with NaNs before a block begins, and each array of it is an allocation of its own, whose
// ends the address sanitizer watches. A barrier that not all threads of a block reach, or a shuffle
// that not all lanes of a warp reach, ends the process with the place of both threads.
//
// Kernels do not call these functions but kernel.h's, which are the hardware's own on a GPU.
#ifndef DPIPE_CORE_OPS_CUDA_EMULATION_H_
#define DPIPE_CORE_OPS_CUDA_EMULATION_H_

#include <cstddef>
#include <cstdint>

namespace dpipe::ops::cuda::emulation {

// The order in which blocks and threads run from now on, for launches of the calling thread. 0:
// increasing.
void SetOrder(uint64_t seed);

// Calls thread(kernel) as every thread of `blocks` blocks of `threads` threads, a multiple of 32 up
// to 1024. Returns when all have ended.
void Run(uint32_t blocks, uint32_t threads, void (*thread)(const void*), const void* kernel);

// For threads of kernels.
struct Position {
  uint32_t thread = 0;
  uint32_t block = 0;
  uint32_t blocks = 0;
};
const Position& Here();
// __syncthreads.
void Barrier();
// The `bits` that lane `lane ^ mask` of the warp gives at the same time.
uint64_t ExchangeXor(uint64_t bits, uint32_t mask);
// The block's array for the declaration at `site`, the same for all threads and all times.
void* Shared(const void* site, size_t size_bytes);

}  // namespace dpipe::ops::cuda::emulation

#endif  // DPIPE_CORE_OPS_CUDA_EMULATION_H_
