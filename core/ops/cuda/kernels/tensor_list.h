// Lists of tensors for a single launch.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_TENSOR_LIST_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_TENSOR_LIST_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/pack.h"
#include "core/tensor/cuda/first_where.h"

namespace dpipe::ops::cuda {

// Up to kCount tensors with consecutive blocks, as a kernel argument of at most 4 KiB. An Entry has
// a tensor's `size`, its address and other data that the kernel needs.
template <typename Entry, int kCount>
struct TensorList {
  Entry tensors[kCount];
  uint32_t end_blocks[kCount];  // end of each tensor's blocks; the last tensors may have none

  // Gives each of the first `count` entries blocks_of(entry) blocks.
  template <typename BlocksOf>
  void Divide(const Entry* first, int count, const BlocksOf& blocks_of) {
    DPIPE_CHECK(count >= 0 && count <= kCount) << count << " tensors";
    uint32_t blocks = 0;
    for (int t = 0; t < kCount; ++t) {
      tensors[t] = t < count ? first[t] : Entry{};
      if (t < count) blocks += blocks_of(first[t]);
      end_blocks[t] = blocks;
    }
  }
  // Gives each entry one thread per pack of fp32, for ForEachPackOf.
  void DividePacks(const Entry* first, int count) {
    Divide(first, count, [](const Entry& entry) { return BlocksFor(Packs<float>(entry.size)); });
  }
  uint32_t blocks() const { return end_blocks[kCount - 1]; }

  DPIPE_KERNEL_FUNCTION uint32_t FirstBlock(int t) const { return t == 0 ? 0 : end_blocks[t - 1]; }
  // Returns the index of this block's tensor.
  DPIPE_KERNEL_FUNCTION int Here() const {
    return dpipe::cuda::FirstWhere(kCount, [this](int t) { return Block() < end_blocks[t]; });
  }
};

// Calls `f(entry, i, count)` for the elements [i, i + count) of each tensor, one pack of fp32 per
// thread.
template <typename List, typename F>
DPIPE_KERNEL_FUNCTION void ForEachPackOf(const List& list, const F& f) {
  const int t = list.Here();
  const auto& entry = list.tensors[t];
  const int64_t i = (int64_t{Block() - list.FirstBlock(t)} * kThreads + Thread()) * kPack<float>;
  if (i < entry.size) f(entry, i, PackCount<float>(entry.size, i));
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_TENSOR_LIST_H_
