#include "data/order/recent_epochs.h"

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

}  // namespace
}  // namespace dpipe
