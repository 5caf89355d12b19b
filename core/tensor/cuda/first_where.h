// Which of a launch's parts a block belongs to. Plain C++, since nvcc compiles it, too.
#ifndef DPIPE_CORE_TENSOR_CUDA_FIRST_WHERE_H_
#define DPIPE_CORE_TENSOR_CUDA_FIRST_WHERE_H_

#if defined(__CUDACC__)
#define DPIPE_ON_HOST_AND_GPU __host__ __device__ __forceinline__
#else
#define DPIPE_ON_HOST_AND_GPU inline
#endif

namespace dpipe::cuda {

// The first of 0, ..., n - 1, at least one, for which `holds` is true, as it is for all behind it;
// the last where it is true for none.
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
