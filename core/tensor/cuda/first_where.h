// Finds the part of a launch that a block belongs to. Plain C++, because nvcc compiles it too.
#ifndef DPIPE_CORE_TENSOR_CUDA_FIRST_WHERE_H_
#define DPIPE_CORE_TENSOR_CUDA_FIRST_WHERE_H_

#if defined(__CUDACC__)
#define DPIPE_ON_HOST_AND_GPU __host__ __device__ __forceinline__
#else
#define DPIPE_ON_HOST_AND_GPU inline
#endif

namespace dpipe::cuda {

// Returns the smallest i in 0, ..., n - 1 for which `holds(i)` is true, or n - 1 if there is none.
// Requires n >= 1 and monotonicity: if `holds` is true for i, it is true for all larger indices.
// Binary search: O(log n) calls of `holds`.
template <typename Holds>
DPIPE_ON_HOST_AND_GPU int FirstWhere(int n, const Holds& holds) {
  int low = 0, high = n - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_FIRST_WHERE_H_
