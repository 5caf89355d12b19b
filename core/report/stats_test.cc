#include "core/report/stats.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(MedianTest, OddEvenAndEmpty) {
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({7}), 7);
  EXPECT_TRUE(std::isnan(Median({})));
}

TEST(SpreadTest, ByHand) {
  // Median 4; deviations 3, 2, 0, 1, 96 with median 2: one outlier does not move it.
  const Spread spread = SpreadOf({1, 2, 4, 5, 100});
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 100);
  EXPECT_EQ(spread.mad, 2);
}

TEST(SpreadTest, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(SpreadOf({}).min));
  EXPECT_TRUE(std::isnan(SpreadOf({}).mad));
}

}  // namespace
}  // namespace dpipe::report
