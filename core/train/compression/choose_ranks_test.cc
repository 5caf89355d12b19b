#include "core/train/compression/choose_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using Layers = std::vector<std::vector<CompressionChoice>>;

TEST(ChooseRanksTest, ByHand) {
  // For the second layer a small size costs little error, for the first layer a lot.
  const Layers layers = {{{10, 9}, {20, 1}}, {{10, 2}, {40, 1}}};
  EXPECT_EQ(ChooseUnderBudget(layers, 3.01, {1, 1}), (std::vector<int>{1, 0}));
  EXPECT_EQ(ChooseUnderBudget(layers, 11.01, {1, 1}), (std::vector<int>{0, 0}));
  EXPECT_EQ(ChooseUnderBudget(layers, 2.01, {1, 1}), (std::vector<int>{1, 1}));
  EXPECT_EQ(ChooseUnderBudget(layers, 1, {1, 0}), (std::vector<int>{1, 0})) << "nothing fits";
}

// Gradients that have overflowed: none of their errors is within a budget.
TEST(ChooseRanksTest, NonFiniteErrorsFitNoBudget) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Layers layers = {{{10, inf}, {20, 1}}, {{10, nan}, {40, 1}}, {{10, 1}, {40, 0.5}}};
  EXPECT_EQ(ChooseUnderBudget(layers, 3.01, {1, 1, 1}), (std::vector<int>{1, 1, 0}));
  for (double budget : {inf, -inf, nan}) {
    EXPECT_EQ(ChooseUnderBudget(layers, budget, {1, 1, 1}), (std::vector<int>{1, 1, 1})) << budget;
  }
}

// Compares with every combination: within the budget, and no larger than the best one that leaves
// one bin per layer unused, which is the maximum cost of rounding up.
TEST(ChooseRanksTest, AgainstBruteForce) {
  for (int i = 0; i < 300; ++i) {
    RandomStream stream(71, i, 0, RandomPurpose::kTest);
    Layers layers(1 + stream.NextBelow(5));
    std::vector<int> fallback;
    double budget = 0;
    for (auto& choices : layers) {
      choices.resize(1 + stream.NextBelow(4));
      for (CompressionChoice& choice : choices) {
        choice = {1 + static_cast<int64_t>(stream.NextBelow(100)), stream.NextUniform()};
      }
      fallback.push_back(static_cast<int>(stream.NextBelow(choices.size())));
      budget += choices[fallback.back()].error;
    }
    const int bins = 2000;
    const std::vector<int> chosen = ChooseUnderBudget(layers, budget, fallback, bins);
    const double safe = budget * (1 - static_cast<double>(layers.size()) / bins);
    int64_t best = 0, size = 0;
    double error = 0;
    for (size_t l = 0; l < layers.size(); ++l) {
      size += layers[l][chosen[l]].size;
      error += layers[l][chosen[l]].error;
      best += layers[l][fallback[l]].size;
    }
    EXPECT_LE(error, budget * (1 + 1e-12));
    std::vector<size_t> index(layers.size(), 0);
    for (bool more = true; more;) {
      double sum = 0;
      int64_t total = 0;
      for (size_t l = 0; l < layers.size(); ++l) {
        sum += layers[l][index[l]].error;
        total += layers[l][index[l]].size;
      }
      if (sum <= safe) best = std::min(best, total);
      more = false;
      for (size_t l = 0; l < layers.size() && !more; ++l) {
        more = ++index[l] < layers[l].size();
        if (!more) index[l] = 0;
      }
    }
    EXPECT_LE(size, best) << i;
  }
}

}  // namespace
}  // namespace dpipe
