#include "core/train/compression/choose_ranks.h"

#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace dpipe {
namespace {

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();

// Returns num_bins + 1 for an error above the budget or not finite.
int BinsOf(double error, double budget, int num_bins) {
  if (error <= 0) return 0;
  if (!std::isfinite(error) || !std::isfinite(budget)) return num_bins + 1;
  if (budget <= 0 || error > budget) return num_bins + 1;
  return static_cast<int>(std::ceil(error / budget * num_bins));
}

}  // namespace

std::vector<int> ChooseUnderBudget(const std::vector<std::vector<CompressionChoice>>& layers,
                                   double budget, const std::vector<int>& fallback, int num_bins) {
  DPIPE_CHECK_EQ(layers.size(), fallback.size());
  // min_size[b]: the minimum size of the layers so far whose errors take at most b bins.
  std::vector<int64_t> min_size(num_bins + 1, 0);
  std::vector<std::vector<int>> taken;  // by layer and bins
  for (const std::vector<CompressionChoice>& choices : layers) {
    std::vector<int64_t> next(num_bins + 1, kImpossible);
    std::vector<int>& choice_at = taken.emplace_back(num_bins + 1, -1);
    for (int c = 0; c < static_cast<int>(choices.size()); ++c) {
      const int bins = BinsOf(choices[c].error, budget, num_bins);
      for (int b = bins; b <= num_bins; ++b) {
        if (min_size[b - bins] == kImpossible) continue;
        const int64_t size = min_size[b - bins] + choices[c].size;
        if (size >= next[b]) continue;
        next[b] = size;
        choice_at[b] = c;
      }
    }
    min_size = std::move(next);
  }
  int64_t fallback_size = 0;
  for (size_t l = 0; l < layers.size(); ++l) fallback_size += layers[l][fallback[l]].size;
  if (min_size[num_bins] >= fallback_size) return fallback;
  std::vector<int> result(layers.size());
  int b = num_bins;
  for (int l = static_cast<int>(layers.size()) - 1; l >= 0; --l) {
    result[l] = taken[l][b];
    b -= BinsOf(layers[l][result[l]].error, budget, num_bins);
  }
  return result;
}

}  // namespace dpipe
