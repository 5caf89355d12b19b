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

// L-GreCo's algorithm: chooses each layer's compression under an error budget.
//
// Markov, Alim, Frantar, Alistarh, "L-GreCo: Layerwise-adaptive gradient compression for efficient
// data-parallel deep learning" (MLSys 2024, arXiv 2210.17357). For each layer one of several
// parameters is chosen to minimize the total size, while the total error stays within a budget: the
// error of one parameter for all layers. This is a knapsack problem, solved by dynamic programming
// over errors discretized into bins.
struct CompressionChoice {
  int64_t size = 0;  // numbers that are sent
  double error = 0;  // squared, >= 0
};

// Returns the index of the choice for each layer. Errors are rounded up to bins, `num_bins` of
// which make up the budget, so the total error does not exceed it. If nothing smaller fits, returns
// `fallback`, whose error may exceed the budget. Positive errors that are not finite fit no budget,
// and no positive error fits a budget that is not finite. O(layers x choices x num_bins).
std::vector<int> ChooseUnderBudget(const std::vector<std::vector<CompressionChoice>>& layers,
                                   double budget, const std::vector<int>& fallback,
                                   int num_bins = 10000);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_H_
