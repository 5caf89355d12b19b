// L-GreCo's algorithm: chooses each layer's compression under an error budget.
//
// Markov, Alim, Frantar, Alistarh, "L-GreCo: Layerwise-adaptive gradient compression for efficient
// data-parallel deep learning" (MLSys 2024, arXiv 2210.17357). For each layer one of several
// parameters is chosen to minimize the total size, while the total error stays within a budget: the
// error of one parameter for all layers. This is a knapsack problem, solved by dynamic programming
// over errors discretized into bins.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_

#include <cstdint>
#include <vector>

namespace dpipe {

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

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_
