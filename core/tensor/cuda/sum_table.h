// Ordered sums of many tensors in one kernel launch.
#ifndef DPIPE_CORE_TENSOR_CUDA_SUM_TABLE_H_
#define DPIPE_CORE_TENSOR_CUDA_SUM_TABLE_H_

#include <cstdint>

#include "core/tensor/cuda/first_where.h"

namespace dpipe::cuda {

// The sums of one launch, passed as the kernel's argument, which is limited to 4 KiB. Plain C++,
// because nvcc compiles it too.
struct SumTable {
  static constexpr int kMaxSums = 96;
  static constexpr int kMaxTerms = 220;
  static constexpr uint32_t kThreads = 256;  // per block
  static constexpr int kAtOnce = 4;          // elements in flight per thread
  static constexpr int64_t kElementsOfBlock = 4096;

  struct Sum {
    float* sum;
    int64_t count;
    uint32_t end_block;  // end of its blocks, which follow those of the previous sum
    uint8_t first_term, num_terms;
    bool adds;
  };

  Sum sums[kMaxSums];
  const float* terms[kMaxTerms];
  int32_t num_sums;
  int32_t num_terms;

  uint32_t blocks() const { return num_sums == 0 ? 0 : sums[num_sums - 1].end_block; }

  // Does the work of one thread of one block. Each element belongs to one thread, which reads all
  // its terms before it writes the sum.
  DPIPE_ON_HOST_AND_GPU void AddUp(uint32_t block, uint32_t thread) const {
    const int s = FirstWhere(num_sums, [&](int i) { return block < sums[i].end_block; });
    const Sum& own = sums[s];
    const int64_t begin =
        static_cast<int64_t>(block - (s == 0 ? 0 : sums[s - 1].end_block)) * kElementsOfBlock;
    const int64_t end = own.count < begin + kElementsOfBlock ? own.count : begin + kElementsOfBlock;
    for (int64_t i = begin + thread; i < end; i += kAtOnce * kThreads) {
      float totals[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * kThreads < end) totals[k] = terms[own.first_term][i + k * kThreads];
      }
      for (int t = 1; t < own.num_terms; ++t) {
        for (int k = 0; k < kAtOnce; ++k) {
          if (i + k * kThreads < end) totals[k] += terms[own.first_term + t][i + k * kThreads];
        }
      }
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * kThreads >= end) continue;
        float* const sum = own.sum + i + k * kThreads;
        *sum = own.adds ? *sum + totals[k] : totals[k];
      }
    }
  }
};
static_assert(sizeof(SumTable) <= 4096, "a kernel's arguments");

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SUM_TABLE_H_
