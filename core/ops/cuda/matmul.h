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

// Whether a weight's gradient [m, n], a sum over k, had best give the bias's too (a_sums), on a GPU
// of so many multiprocessors; else it is had by reading a once more.
//
// A product whose tiles do not fill the GPU is fast only where k is divided, and cuBLASLt does not
// say whether it divides k where it also sums rows. A U-Net's first level, 64 samples of 64 x 64
// pixels and 320 channels, is 9 tiles of 128 x 128 over k = 262,144: undivided, one of an H200's
// 132 multiprocessors has 2 * 128^2 * k operations to do at 7.5 Tflop/s, 1.15 ms. Divided, x and dy
// are read at 4.8 TB/s, 0.07 ms, and dy once more, 0.035 ms. So the product sums rows where its
// tiles fill the GPU, and where k is short: 1024 takes a tile 4.5 us, about what two more kernels
// take. Not where m, n or k is not a multiple of 8.
bool ShouldSumRows(int64_t m, int64_t n, int64_t k, int multiprocessors);

// A whole contiguous tensor as a matrix of rows of its last dimension.
Matrix RowsOf(const Tensor& t);
Matrix Transposed(Matrix matrix);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_MATMUL_H_
