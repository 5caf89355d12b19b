// Products of fp32 matrices in which a row's bits do not depend on the number of rows.
//
// oneDNN's AVX2 products split the sums of rows left over from whole tiles differently from the
// others. A sample's bits would therefore depend on the batch size, on its position in the batch
// and on the number of threads. Here each element is one chain of fused multiply-adds in the order
// of k. The number of rows, columns and threads does not matter. Takes 1.0 to 1.3 times as long.
#ifndef DPIPE_CORE_OPS_PRODUCT_FIXED_ORDER_PRODUCT_H_
#define DPIPE_CORE_OPS_PRODUCT_FIXED_ORDER_PRODUCT_H_

#include <cstdint>

#include "core/tensor/device.h"

namespace dpipe::ops::cpu {

// True if the CPU has AVX2 and fused multiply-adds, which FixedOrderProduct requires.
bool HasFixedOrderProduct();

// Computes C [rows, n] = A [rows, k] B on the device's threads. Sums begin with `bias` [n] if it is
// not null. All matrices are row-major, with rows lda, ldb and ldc elements apart. B is [k, n], or
// stored as [n, k] if `transpose_b`.
void FixedOrderProduct(const Device& device, bool transpose_b, int64_t rows, int64_t n, int64_t k,
                       const float* a, int64_t lda, const float* b, int64_t ldb, const float* bias,
                       float* c, int64_t ldc);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_PRODUCT_FIXED_ORDER_PRODUCT_H_
