// Matrix products on CUDA devices.
#ifndef DPIPE_CORE_OPS_CUDA_MATMUL_H_
#define DPIPE_CORE_OPS_CUDA_MATMUL_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// One of `batch` matrices, rows first, whose rows begin `row_stride` elements apart and which
// themselves begin `batch_stride` apart.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;  // or bf16
  int64_t row_stride = 0;
  int64_t batch_stride = 0;
  // It is given as its transpose: the element in row i and column j lies at j * row_stride + i.
  bool transposed = false;
};

// d [m, n] = a [m, k] b [k, n] + bias + c [m, n], for each of `batch`; summed in fp32 and rounded
// once, but that cuBLASLt takes a bias in d's type. a and b have one element type, c and d the same
// or fp32; c and d have one, and are not transposed.
struct Product {
  int64_t m, n, k;
  Matrix a = {}, b = {}, d = {};
  int64_t batch = 1;
  const float* bias = nullptr;  // [n], added to every row
  Matrix c = {};                // without data: nothing is added; may be d itself
  // [m]: receives the sums of a's rows, which a product reads anyway; null: not wanted. Not with a
  // bias or several batches.
  float* a_sums = nullptr;
};

// Enqueues the product on `device`: with cuBLASLt on GPUs, whose algorithm is chosen once for a
// shape and whose result does not vary from run to run. Unimplemented, and nothing done, where that
// has no algorithm.
absl::Status Multiply(const std::shared_ptr<Device>& device, const Product& product);

// A whole contiguous tensor as a matrix of rows of its last dimension.
Matrix RowsOf(const Tensor& t);
Matrix Transposed(Matrix matrix);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_MATMUL_H_
