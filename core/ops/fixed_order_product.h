// Products of fp32 matrices whose rows do not depend on how many they are.
//
// oneDNN's products for AVX2 divide the sums of the rows left over from whole tiles differently
// from those of the others, so that a sample's bits would depend on the size of its batch, on its
// place there and on the number of threads. Here each element is one chain of fused multiply-adds
// in order of k, whatever the number of rows, columns and threads. Takes 1.0 to 1.3 times as long.
#ifndef DPIPE_CORE_OPS_FIXED_ORDER_PRODUCT_H_
#define DPIPE_CORE_OPS_FIXED_ORDER_PRODUCT_H_

#include <cstdint>

#include "core/tensor/device.h"

namespace dpipe::ops::cpu {

// Whether the CPU has AVX2 and fused multiply-adds, which FixedOrderProduct is made of.
bool HasFixedOrderProduct();

// C [rows, n] = A [rows, k] B, and `bias` [n] added to every row where it is not null: sums begin
// with it. All row-major, with rows lda, ldb and ldc elements apart; B is [k, n], or stored [n, k]
// where `transpose_b`. On the device's threads.
void FixedOrderProduct(const Device& device, bool transpose_b, int64_t rows, int64_t n, int64_t k,
                       const float* a, int64_t lda, const float* b, int64_t ldb, const float* bias,
                       float* c, int64_t ldc);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_FIXED_ORDER_PRODUCT_H_
