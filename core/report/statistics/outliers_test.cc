#include "core/report/statistics/outliers.h"

#include <algorithm>

#include "core/report/statistics/known_distributions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OutliersTest, OneFarSampleIsFoundOnEitherSide) {
  EXPECT_THAT(FindOutliers({10, 11, 10, 30, 9}), ElementsAre(false, false, false, true, false));
  EXPECT_THAT(FindOutliers({10, 11, -9, 10, 9}), ElementsAre(false, false, true, false, false));
}

TEST(OutliersTest, FewOrEqualSamplesHaveNone) {
  EXPECT_THAT(FindOutliers({}), IsEmpty());
  EXPECT_THAT(FindOutliers({1, 2, 1000}), Each(false));
  EXPECT_THAT(FindOutliers({7, 7, 7, 7, 7}), Each(false));
}

TEST(OutliersTest, OnlyFarSamplesAreOutliersIfMostAreEqual) {
  const auto outliers = FindOutliers({7, 7, 7, 7, 7, 7, 7, 7, 7, 9});
  EXPECT_TRUE(outliers.back());
  EXPECT_EQ(std::count(outliers.begin(), outliers.end(), true), 1);
}

TEST(OutliersTest, NormalNoiseHasAboutOneInTwoThousand) {
  const auto outliers = FindOutliers(NormalSamples(20'000, 5, 2, 0));
  const auto count = std::count(outliers.begin(), outliers.end(), true);
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 25);
}

TEST(OutliersTest, EveryPlantedOutlierIsFound) {
  auto samples = NormalSamples(200, 100, 1, 7);
  for (const int i : {3, 70, 199}) samples[i] += 15;
  const auto outliers = FindOutliers(samples);
  for (const int i : {3, 70, 199}) EXPECT_TRUE(outliers[i]) << i;
  EXPECT_LE(std::count(outliers.begin(), outliers.end(), true), 4);
}

}  // namespace
}  // namespace dpipe::report
