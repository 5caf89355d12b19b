// L-GreCo's choice: how strongly to compress each layer under a budget of error.
//
// Markov, Alim, Frantar, Alistarh, "L-GreCo: Layerwise-adaptive gradient compression for efficient
// data-parallel deep learning" (MLSys 2024, arXiv 2210.17357): of each layer one of several
// parameters is chosen so that the sizes add up to the least while the errors add up to no more
// than a budget: the error of one parameter for all layers. A knapsack, solved by dynamic
// programming over an error cut into bins.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_

#include <cstdint>
#include <vector>

namespace dpipe {

struct CompressionChoice {
  int64_t size = 0;  // numbers that are sent
  double error = 0;  // squared, >= 0
};

// By layer, the index of the choice taken. Errors are rounded up to a bin, `num_bins` of which make
// up the budget, so the sum of the errors does not exceed it, unless `fallback`'s does: what is
// taken where nothing smaller fits. Errors above 0 that are not finite fit no budget, and a budget
// that is not finite has room for none. O(layers x choices x num_bins).
std::vector<int> ChooseUnderBudget(const std::vector<std::vector<CompressionChoice>>& layers,
                                   double budget, const std::vector<int>& fallback,
                                   int num_bins = 10000);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_RANKS_H_
