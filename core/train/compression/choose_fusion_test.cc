#include "core/train/compression/choose_fusion.h"

#include <algorithm>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(ChooseFusionTest, ByHand) {
  FusionCosts costs;
  costs.compress_fixed_ns = 100;
  costs.compress_ns_per_number = 1;
  costs.send_fixed_ns = 10;
  costs.send_ns_per_number = 1;
  // For small tensors the gain is less than the fixed cost.
  EXPECT_EQ(ChooseFusion({5, 5, 5}, costs), (std::vector<int>{3}));
  EXPECT_EQ(FusedTime({5, 5, 5}, {3}, costs), 115 + 25);
  // Large ones are sent while the next one is compressed.
  EXPECT_EQ(ChooseFusion({1000, 1000}, costs), (std::vector<int>{1, 2}));
  EXPECT_EQ(FusedTime({1000, 1000}, {1, 2}, costs), 1100 + 1100 + 1010);
  EXPECT_TRUE(ChooseFusion({}, costs).empty());
  // If only a small part is sent, there is little to overlap.
  costs.sent_share = 0.05;
  EXPECT_EQ(FusedTime({1000, 1000}, {1, 2}, costs), 1100 + 1100 + 60);
  EXPECT_EQ(ChooseFusion({1000, 1000}, costs), (std::vector<int>{2}));
}

TEST(ChooseFusionTest, NoPartitionIsQuicker) {
  for (int i = 0; i < 400; ++i) {
    RandomStream stream(72, i, 0, RandomPurpose::kTest);
    std::vector<int64_t> sizes(1 + stream.NextBelow(9));
    for (int64_t& size : sizes) size = stream.NextBelow(500);
    FusionCosts costs;
    costs.compress_fixed_ns = stream.NextBelow(300);
    costs.compress_ns_per_number = 2 * stream.NextUniform();
    costs.send_fixed_ns = stream.NextBelow(300);
    costs.send_ns_per_number = 2 * stream.NextUniform();
    const std::vector<int> chosen = ChooseFusion(sizes, costs);
    ASSERT_EQ(chosen.back(), static_cast<int>(sizes.size()));
    ASSERT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    const Nanos time = FusedTime(sizes, chosen, costs);
    for (uint32_t cuts = 0; cuts < 1u << (sizes.size() - 1); ++cuts) {
      std::vector<int> ends;
      for (size_t t = 1; t < sizes.size(); ++t) {
        if ((cuts >> (t - 1) & 1) != 0) ends.push_back(static_cast<int>(t));
      }
      ends.push_back(static_cast<int>(sizes.size()));
      EXPECT_LE(time, FusedTime(sizes, ends, costs)) << i;
    }
  }
}

}  // namespace
}  // namespace dpipe
