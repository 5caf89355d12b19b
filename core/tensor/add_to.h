// Sums of numbers in the host's memory.
#ifndef DPIPE_CORE_TENSOR_ADD_TO_H_
#define DPIPE_CORE_TENSOR_ADD_TO_H_

#include <cstdint>

namespace dpipe {

// to[i] += from[i]. Sixteen at a time: of a plain loop the compiler does not know that the two do
// not overlap, and adds one number after the other.
inline void AddTo(const float* from, int64_t count, float* to) {
  constexpr int kLanes = 16;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float sums[kLanes];
    for (int l = 0; l < kLanes; ++l) sums[l] = to[i + l] + from[i + l];
    for (int l = 0; l < kLanes; ++l) to[i + l] = sums[l];
  }
  for (; i < count; ++i) to[i] += from[i];
}

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ADD_TO_H_
