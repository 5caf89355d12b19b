#include "data/order/sample_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace dpipe {

namespace {

TEST(RecentEpochsTest, KeepsTheLastFour) {
  RecentEpochs<int64_t> epochs;
  std::vector<int64_t> made;
  const auto get = [&](int64_t epoch) {
    return *epochs.Get(epoch, [&] {
      made.push_back(epoch);
      return 10 * epoch;
    });
  };
  for (const int64_t epoch : {0, 1, 2, 3, 0, 3}) EXPECT_EQ(get(epoch), 10 * epoch);
  EXPECT_EQ(made, (std::vector<int64_t>{0, 1, 2, 3}));
  // The smallest is evicted.
  for (const int64_t epoch : {4, 1, 2, 3, 4, 0}) EXPECT_EQ(get(epoch), 10 * epoch);
  EXPECT_EQ(made, (std::vector<int64_t>{0, 1, 2, 3, 4, 0}));
}

TEST(SampleOrderTest, EachEpochIsAPermutation) {
  for (const int size : {1, 2, 7, 1000}) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int32_t> order = EpochOrder(5, epoch, size);
      std::sort(order.begin(), order.end());
      std::vector<int32_t> all(size);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
  }
}

TEST(SampleOrderTest, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(EpochOrder(5, 2, 100), EpochOrder(5, 2, 100));
  EXPECT_NE(EpochOrder(5, 2, 100), EpochOrder(5, 3, 100));
  EXPECT_NE(EpochOrder(5, 2, 100), EpochOrder(6, 2, 100));
}

TEST(SampleOrderTest, AllOrdersAreEquallyLikely) {
  std::map<std::vector<int32_t>, int> counts;
  for (int epoch = 0; epoch < 6000; ++epoch) ++counts[EpochOrder(9, epoch, 3)];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 120);  // 4 standard deviations
}

TEST(SampleOrderTest, PositionsRunThroughTheEpochsInAnyOrderOfAsking) {
  const SampleOrder order(5, 10);
  for (const int64_t epoch : {0, 7, 3, 1, 2, 9, 0, 8, 4}) {
    for (int place = 0; place < 10; ++place) {
      EXPECT_EQ(order.At(epoch * 10 + place), EpochOrder(5, epoch, 10)[place]);
    }
  }
}

}  // namespace

}  // namespace dpipe
