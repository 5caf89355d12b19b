// Tensors as elements of either type, for kernels that take both.
#ifndef DPIPE_CORE_OPS_CUDA_ANY_FLOATS_H_
#define DPIPE_CORE_OPS_CUDA_ANY_FLOATS_H_

#include "core/ops/cuda/kernels/samples.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

inline AnyFloats FloatsOf(const Tensor& t) { return {t.raw_data(), t.dtype() == DType::kBf16}; }
inline MutableFloats MutableFloatsOf(const Tensor& t) {
  return {t.raw_data(), t.dtype() == DType::kBf16};
}

// Returns the elements of an optional fp32 tensor, or null.
inline const float* DataOrNull(const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; }

// Allocates `size` numbers in double on the tensor's device; see Workspace.
inline Tensor DoubleWorkspace(const Tensor& like, int64_t size) {
  return Tensor::Empty(like.device(), {2 * size}, DType::kF32);
}
inline double* DoublesOf(const Tensor& workspace) {
  return static_cast<double*>(workspace.raw_data());
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_ANY_FLOATS_H_
