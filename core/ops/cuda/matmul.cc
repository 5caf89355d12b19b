#include "core/ops/cuda/matmul.h"

#include <vector>

#include "core/ops/cuda/cublas_matmul.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {
namespace {

double ElementOf(const Matrix& matrix, int64_t batch, int64_t row, int64_t column) {
  const int64_t i = batch * matrix.batch_stride +
                    (matrix.transposed ? column : row) * matrix.row_stride +
                    (matrix.transposed ? row : column);
  return matrix.dtype == DType::kF32 ? static_cast<const float*>(matrix.data)[i]
                                     : static_cast<float>(static_cast<const Bf16*>(matrix.data)[i]);
}

void SetElement(const Matrix& matrix, int64_t batch, int64_t row, int64_t column, double value) {
  const int64_t i = batch * matrix.batch_stride + row * matrix.row_stride + column;
  if (matrix.dtype == DType::kF32) {
    static_cast<float*>(matrix.data)[i] = static_cast<float>(value);
  } else {
    static_cast<Bf16*>(matrix.data)[i] = Bf16(static_cast<float>(value));
  }
}

// Computes the product by its definition; used instead of the library on emulated devices.
void MultiplyOnHost(const Product& p) {
  for (int64_t i = 0; p.a_sums != nullptr && i < p.m; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < p.k; ++k) sum += ElementOf(p.a, 0, i, k);
    p.a_sums[i] = static_cast<float>(sum);
  }
  std::vector<double> right(p.k * p.n), sums(p.n);
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t k = 0; k < p.k; ++k) {
      for (int64_t j = 0; j < p.n; ++j) right[k * p.n + j] = ElementOf(p.b, b, k, j);
    }
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        sums[j] = p.bias != nullptr ? p.bias[j] : 0.0;
        if (p.c.data != nullptr) sums[j] += ElementOf(p.c, b, i, j);
      }
      for (int64_t k = 0; k < p.k; ++k) {
        const double left = ElementOf(p.a, b, i, k);
        const double* const row = right.data() + k * p.n;
        for (int64_t j = 0; j < p.n; ++j) sums[j] += left * row[j];
      }
      for (int64_t j = 0; j < p.n; ++j) SetElement(p.d, b, i, j, sums[j]);
    }
  }
}

}  // namespace

absl::Status Multiply(const std::shared_ptr<Device>& device, const Product& product) {
  DPIPE_CHECK(product.a.dtype == product.b.dtype)
      << "the factors of a product have different element types";
  DPIPE_CHECK(product.d.dtype == DType::kF32 || product.d.dtype == product.a.dtype)
      << "a product of " << DTypeName(product.a.dtype) << " factors cannot be "
      << DTypeName(product.d.dtype);
  DPIPE_CHECK(!product.d.transposed && !product.c.transposed);
  DPIPE_CHECK(product.c.data == nullptr || product.c.dtype == product.d.dtype)
      << "cannot add " << DTypeName(product.c.dtype) << " to a product in "
      << DTypeName(product.d.dtype);
  DPIPE_CHECK(product.a_sums == nullptr || (product.bias == nullptr && product.batch == 1));
  const Stream stream = StreamOf(*device);
  if (!stream.emulated) return MultiplyByCublas(device, product);
  if (stream.queue == nullptr) {
    MultiplyOnHost(product);
  } else {
    EnqueueWith(stream.queue, stream.handle, product, MultiplyOnHost);
  }
  return absl::OkStatus();
}

bool ShouldSumRows(int64_t m, int64_t n, int64_t k, int multiprocessors) {
  constexpr int64_t kTile = 128, kShort = 1024;
  // Rows and columns of other lengths are not aligned. Products with them are small, and it is not
  // documented whether the library can sum them in all cases.
  constexpr int64_t kPack = 8;
  if (m % kPack != 0 || n % kPack != 0 || k % kPack != 0) return false;
  const int64_t tiles = ((m + kTile - 1) / kTile) * ((n + kTile - 1) / kTile);
  return tiles >= multiprocessors || k <= kShort;
}

Matrix RowsOf(const Tensor& t) { return {t.raw_data(), t.dtype(), t.dim(-1)}; }

Matrix Transposed(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

}  // namespace dpipe::ops::cuda
