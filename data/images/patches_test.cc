#include "data/images/patches.h"

#include <cmath>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

constexpr int kSide = 64;

PatchDraws Draws(double share, uint64_t seed = 3) {
  return PatchDraws(seed, kSide, *MakePatchSizes(kSide, 8, share));
}

TEST(PatchesTest, SizesMatchThePaper) {
  const auto sizes = MakePatchSizes(512, 64, 0.5);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ASSERT_EQ(sizes->size(), 3u);
  const int sides[] = {512, 256, 128};
  const double probabilities[] = {0.5, 0.3, 0.2};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*sizes)[i].side, sides[i]);
    EXPECT_NEAR((*sizes)[i].probability, probabilities[i], 1e-12);
  }
}

TEST(PatchesTest, WithoutAQuarterHalvesHaveTheWholeShare) {
  const auto sizes = MakePatchSizes(16, 8, 0.25);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ASSERT_EQ(sizes->size(), 2u);
  EXPECT_EQ((*sizes)[1].side, 8);
  EXPECT_EQ((*sizes)[1].probability, 0.25);
}

TEST(PatchesTest, AShareOfOneHasNoWholePictures) {
  const auto sizes = MakePatchSizes(kSide, 8, 1);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ASSERT_EQ(sizes->size(), 2u);
  EXPECT_EQ((*sizes)[0].side, kSide / 2);
}

TEST(PatchesTest, ImpossibleSizesAreNamed) {
  const auto error = [](int image_size, double share) {
    return std::string(MakePatchSizes(image_size, 8, share).status().message());
  };
  EXPECT_THAT(error(kSide, 0), HasSubstr("a share of 0 of the steps"));
  EXPECT_THAT(error(kSide, 1.5), HasSubstr("a share of 1.5 of the steps"));
  EXPECT_THAT(error(kSide, std::nan("")), HasSubstr("a share of nan of the steps"));
  EXPECT_THAT(error(24, 0.5), HasSubstr("half of 24 pixels is not a multiple of 8"));
  EXPECT_THAT(error(kSide, 1e-4), HasSubstr("with a share of 0.0001 only one step in "));
  EXPECT_THAT(error(kSide, 0.9999), HasSubstr("would have 64 pixels; the minimum is one in 1000"));
}

// 4000 draws of probability p deviate from 4000 p by sqrt(4000 p (1 - p)) <= 32.
TEST(PatchesTest, SizesOccurWithTheirProbabilities) {
  constexpr int kSteps = 4000;
  const PatchDraws draws = Draws(0.5);
  std::map<int, int> counts;
  for (int step = 0; step < kSteps; ++step) ++counts[draws.SideOf(step)];
  ASSERT_EQ(counts.size(), 3u);
  for (const PatchSize& size : draws.sizes()) {
    EXPECT_NEAR(counts[size.side], kSteps * size.probability, 4 * 32) << size.side;
  }
  for (int i = 0; i < 3; ++i) {
    const int64_t first = draws.FirstStepOf(i);
    for (int64_t step = 0; step <= first; ++step) {
      EXPECT_EQ(draws.SideOf(step) == draws.sizes()[i].side, step == first) << step;
    }
  }
}

TEST(PatchesTest, PositionsCoverThePicture) {
  const PatchDraws draws = Draws(1);
  const int64_t step = draws.FirstStepOf(0);  // half of the side
  std::set<int> lefts, tops;
  double left = 0, top = 0, product = 0;
  constexpr int kSamples = 4000;
  for (int sample = 0; sample < kSamples; ++sample) {
    const Patch patch = draws.Of(step, sample);
    EXPECT_EQ(patch.size.width, kSide / 2);
    EXPECT_EQ(patch.size.height, kSide / 2);
    EXPECT_EQ(patch.whole.width, kSide);
    lefts.insert(patch.left);
    tops.insert(patch.top);
    left += patch.left;
    top += patch.top;
    product += (patch.left - 16) * (patch.top - 16);
  }
  EXPECT_EQ(lefts.size(), 33u);
  EXPECT_EQ(*lefts.begin(), 0);
  EXPECT_EQ(*lefts.rbegin(), 32);
  EXPECT_EQ(tops.size(), 33u);
  // The mean of 33 equally likely positions deviates by 9.52 / sqrt(4000) = 0.15, and that of
  // products of independent ones by 9.52^2 / sqrt(4000) = 1.43.
  EXPECT_NEAR(left / kSamples, 16, 4 * 0.15);
  EXPECT_NEAR(top / kSamples, 16, 4 * 0.15);
  EXPECT_NEAR(product / kSamples, 0, 4 * 1.43);
}

TEST(PatchesTest, DrawsDependOnSeedStepAndSample) {
  const PatchDraws draws = Draws(1), same = Draws(1), other = Draws(1, /*seed=*/4);
  int sides = 0, places = 0, neighbours = 0;
  for (int step = 0; step < 100; ++step) {
    EXPECT_EQ(draws.SideOf(step), same.SideOf(step));
    EXPECT_EQ(draws.Of(step, 1).left, same.Of(step, 1).left);
    sides += draws.SideOf(step) != other.SideOf(step);
    places += draws.Of(step, 1).left != other.Of(step, 1).left;
    neighbours += draws.Of(step, 1).left != draws.Of(step, 2).left;
  }
  EXPECT_GT(sides, 20);
  EXPECT_GT(places, 80);
  EXPECT_GT(neighbours, 80);
}

}  // namespace
}  // namespace dpipe
