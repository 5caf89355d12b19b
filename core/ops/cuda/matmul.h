// Matrix products on CUDA devices.
#ifndef DPIPE_CORE_OPS_CUDA_MATMUL_H_
#define DPIPE_CORE_OPS_CUDA_MATMUL_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// `batch` matrices whose rows are `row_stride` elements apart; the matrices are `batch_stride`
// apart.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;  // or bf16
  int64_t row_stride = 0;
  int64_t batch_stride = 0;
  // The matrix is given as its transpose: element (i, j) is at j * row_stride + i.
  bool transposed = false;
};

// d [m, n] = a [m, k] b [k, n] + bias + c [m, n], for each of `batch`. Sums are in fp32 and rounded
// once, except that cuBLASLt takes a bias in d's type. a and b have one element type; c and d have
// one, which is the same or fp32. c and d are not transposed.
struct Product {
  int64_t m, n, k;
  Matrix a = {}, b = {}, d = {};
  int64_t batch = 1;
  const float* bias = nullptr;  // [n], added to every row
  Matrix c = {};                // without data: nothing is added; may be d itself
  // [m]: receives the sums of a's rows, which the product reads anyway. Null: not requested. Not
  // possible with a bias or several batches.
  float* a_sums = nullptr;
};

// Enqueues the product on `device`. On GPUs it runs with cuBLASLt. The algorithm is chosen once per
// shape, and its result does not vary from run to run. Returns Unimplemented, without effect, if
// cuBLASLt has no algorithm.
absl::Status Multiply(const std::shared_ptr<Device>& device, const Product& product);

// True if a weight's gradient [m, n], a sum over k, should also compute the bias's (a_sums) on a
// GPU with this many multiprocessors. Otherwise a is read once more for it.
//
// A product whose tiles do not fill the GPU is fast only if k is divided. cuBLASLt does not report
// whether it divides k when it also sums rows. Example: a U-Net's first level, 64 samples of 64 x
// 64 pixels and 320 channels, has 9 tiles of 128 x 128 over k = 262,144. Undivided, one of an
// H200's 132 multiprocessors has 2 * 128^2 * k operations at 7.5 Tflop/s, 1.15 ms. Divided, reading
// x and dy at 4.8 TB/s takes 0.07 ms, and reading dy once more 0.035 ms.
//
// So the product sums rows if its tiles fill the GPU, or if k is short: at k = 1024 a tile takes
// 4.5 us, about as long as two more kernels. Never if m, n or k is not a multiple of 8.
bool ShouldSumRows(int64_t m, int64_t n, int64_t k, int multiprocessors);

// Returns a whole contiguous tensor as a matrix with rows of its last dimension.
Matrix RowsOf(const Tensor& t);
Matrix Transposed(Matrix matrix);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_MATMUL_H_
