#include "core/schedule/frozen_exchange.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(FrozenExchangeTest, SplitsInQuanta) {
  const std::vector<SampleRange> shares = SplitEvenly({8, 24}, 3, 4);  // 4 quanta over 3
  EXPECT_EQ(shares, (std::vector<SampleRange>{{8, 16}, {16, 20}, {20, 24}}));
  EXPECT_EQ(SplitEvenly({0, 2}, 3, 1), (std::vector<SampleRange>{{0, 1}, {1, 2}, {2, 2}}));
}

TEST(FrozenExchangeTest, MergesNeighbours) {
  EXPECT_EQ(Merge({{4, 6}, {0, 2}, {2, 4}, {8, 9}}), (std::vector<SampleRange>{{0, 6}, {8, 9}}));
}

TEST(FrozenExchangeTest, SendsWhatIsReadElsewhere) {
  // Rank 0 computes samples 0 to 3, rank 1 samples 4 to 7; rank 0 reads all, rank 2 the middle.
  const std::vector<FrozenMessage> messages = FrozenExchange(
      {{0, 0, {0, 4}, 1}, {0, 1, {4, 8}, 1}}, {{0, 0, {0, 8}, 0}, {0, 2, {2, 6}, 0}});
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].samples, (SampleRange{2, 4}));  // 0 -> 2
  EXPECT_EQ(messages[0].from, 0);
  EXPECT_EQ(messages[0].to, 2);
  EXPECT_EQ(messages[1].samples, (SampleRange{4, 8}));  // 1 -> 0
  EXPECT_EQ(messages[1].to, 0);
  EXPECT_EQ(messages[2].samples, (SampleRange{4, 6}));  // 1 -> 2
  EXPECT_EQ(messages[2].step_offset, 1);
}

}  // namespace
}  // namespace dpipe
