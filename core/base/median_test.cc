#include "core/base/median.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(MedianSampleTest, IsTheMiddleOrTheLargerOfTheMiddleTwo) {
  EXPECT_EQ(MedianSample(std::vector<int>{7}), 7);
  EXPECT_EQ(MedianSample(std::vector<int>{5, 1, 3}), 3);
  EXPECT_EQ(MedianSample(std::vector<int>{4, 1, 3, 2}), 3);
}

TEST(MedianSampleTest, EqualSamples) { EXPECT_EQ(MedianSample(std::vector<int>{2, 2, 1, 2}), 2); }

}  // namespace
}  // namespace dpipe
