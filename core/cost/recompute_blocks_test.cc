#include "core/cost/recompute_blocks.h"

#include <algorithm>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

ComponentProfile Uniform(int num_layers, int64_t value_bytes, int64_t saved_bytes) {
  UniformProfileOptions options;
  options.num_layers = num_layers;
  options.value_bytes = value_bytes;
  options.saved_bytes = saved_bytes;
  const ModelProfile profile = UniformProfile(options);
  for (const ComponentProfile& component : profile.components()) {
    if (component.is_backbone()) return component;
  }
  return {};
}

// By hand: 16 layers that save 10 bytes each and pass on 10. Blocks of 4 hand on 3 x 10 bytes. The
// first one is restored when nothing handed on is left but its own value, which it makes again.
TEST(RecomputeBlocksTest, UniformLayersTakeBlocksOfTheSquareRoot) {
  const ComponentProfile component = Uniform(16, 10, 10);
  const RecomputeBlocks blocks(component);
  EXPECT_EQ(blocks.HandedOnBytes({0, 4}, 16), 10);
  EXPECT_EQ(blocks.HandedOnBytes({0, 4}, 4), 0);
  const RecomputeNeed fours = blocks.NeedOf({0, 16}, {4, 8, 12});
  EXPECT_EQ(fours.handed_on, 30);
  EXPECT_EQ(fours.restored, 40);
  EXPECT_EQ(blocks.NeedOf({0, 16}, {}).WithInFlight(5), 160);
  EXPECT_LE(blocks.NeedOf({0, 16}, blocks.Cuts({0, 16}, 1)).WithInFlight(1), 70);
  // With many micro-batches in flight it no longer pays to keep boundaries.
  EXPECT_EQ(blocks.Cuts({0, 16}, 1000), std::vector<int>());
}

// A value that several later blocks read is handed on once.
TEST(RecomputeBlocksTest, SkipsAreHandedOnOnce) {
  ComponentProfile component = Uniform(6, 10, 100);
  ValueProfile* skip = component.add_values();
  skip->set_bytes_per_sample(7);
  skip->set_producer_layer(0);
  skip->add_consumer_layers(3);
  skip->add_consumer_layers(5);
  const RecomputeBlocks blocks(component);
  EXPECT_EQ(blocks.NeedOf({0, 6}, {2, 4}).handed_on, 10 + 7 + 10);
  EXPECT_EQ(blocks.NeedOf({0, 3}, {2}).handed_on, 10);  // its readers are in another stage
}

// Against all divisions: at most 5 % more than the best one on average, and never more than one
// block.
TEST(RecomputeBlocksTest, CutsAreCloseToTheBest) {
  RandomStream random(3, 0, 0, RandomPurpose::kTest);
  double excess = 0;
  int count = 0, divided = 0, gains = 0;
  for (int round = 0; round < 60; ++round) {
    RandomProfileOptions options;
    options.min_layers = 4;
    options.max_layers = 11;
    const ModelProfile profile = RandomProfile(random, options);
    for (const ComponentProfile& component : profile.components()) {
      if (!component.is_backbone()) continue;
      const RecomputeBlocks blocks(component);
      const int layers = component.layers_size(), begin = random.NextBelow(2);
      const int in_flight = 1 + static_cast<int>(random.NextBelow(4));
      const LayerRange range{begin, layers};
      int64_t best = blocks.NeedOf(range, {}).WithInFlight(in_flight);
      const int64_t whole = best;
      for (int set = 0; set < 1 << (range.size() - 1); ++set) {
        std::vector<int> cuts;
        for (int c = 1; c < range.size(); ++c) {
          if ((set >> (c - 1)) & 1) cuts.push_back(begin + c);
        }
        best = std::min(best, blocks.NeedOf(range, cuts).WithInFlight(in_flight));
      }
      const std::vector<int> cuts = blocks.Cuts(range, in_flight);
      const int64_t need = blocks.NeedOf(range, cuts).WithInFlight(in_flight);
      ASSERT_LE(need, whole);
      ASSERT_GE(need, best);
      if (best <= 0) continue;
      excess += static_cast<double>(need) / static_cast<double>(best) - 1;
      gains += best < whole;
      divided += !cuts.empty();
      ++count;
    }
  }
  EXPECT_GT(gains, count / 4);
  EXPECT_GT(divided, 0.8 * gains) << gains;
  EXPECT_LT(excess / count, 0.05);
}

}  // namespace
}  // namespace dpipe
