// Small dense linear algebra for low-rank compression. Plain loops: matrices are a layer's
// gradient, hundreds by thousands at most, and every rank must get the same bits.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_H_

#include <cstdint>
#include <vector>

namespace dpipe {

// Computes out [n, r] = m [n, k] q [k, r].
void Multiply(const float* m, int64_t n, int64_t k, const float* q, int64_t r, float* out);
// Computes out [k, r] = m^T p, with m [n, k], p [n, r].
void MultiplyTransposed(const float* m, int64_t n, int64_t k, const float* p, int64_t r,
                        float* out);
// Computes out [n, k] = p q^T, with p [n, r], q [k, r].
void MultiplyOuter(const float* p, int64_t n, const float* q, int64_t k, int64_t r, float* out);
// Makes the columns of p [n, r] orthonormal (Gram-Schmidt, twice). Columns that depend on earlier
// ones become 0.
void Orthonormalise(float* p, int64_t n, int64_t r);

// Returns approximations of the largest `count` squared singular values of m [n, k], decreasing, by
// subspace iteration from a start drawn with `seed`.
std::vector<double> LeadingSquaredSingularValues(const float* m, int64_t n, int64_t k, int count,
                                                 uint64_t seed);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_H_
