#include "data/order/buckets.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

std::vector<ImageSize> Buckets(int base, int step, double aspect) {
  BucketOptions options;
  options.base_side = base;
  options.step = step;
  options.max_aspect = aspect;
  return MakeBuckets(options).value();
}

TEST(BucketsTest, SizesByHand) {
  std::vector<std::pair<int, int>> sizes;
  for (const ImageSize size : Buckets(512, 64, 2.0)) sizes.push_back({size.width, size.height});
  const std::vector<std::pair<int, int>> expected = {
      {384, 640}, {448, 576}, {512, 512}, {576, 448}, {640, 384}};
  EXPECT_EQ(sizes, expected);
  EXPECT_EQ(Buckets(512, 64, 1.0).size(), 1u);
}

TEST(BucketsTest, SizesKeepTheirPromises) {
  for (const int step : {8, 32, 64}) {
    for (const int base : {64, 256, 512, 768, 1024}) {
      const std::vector<ImageSize> buckets = Buckets(base, step, 3.0);
      int num_square = 0;
      for (const ImageSize size : buckets) {
        EXPECT_LE(size.width * size.height, base * base);
        EXPECT_EQ(size.width % step, 0);
        EXPECT_EQ(size.height % step, 0);
        EXPECT_LE(std::max(size.width, size.height), 3 * std::min(size.width, size.height));
        // A longer side would exceed the area.
        const int longer = std::max(size.width, size.height) + step;
        EXPECT_GT(longer * std::min(size.width, size.height), base * base);
        num_square += size.width == base && size.height == base;
        // Its mirror image exists too.
        EXPECT_TRUE(std::any_of(buckets.begin(), buckets.end(), [&](ImageSize other) {
          return other.width == size.height && other.height == size.width;
        }));
      }
      EXPECT_EQ(num_square, 1);
    }
  }
}

TEST(BucketsTest, ImpossibleOptionsAreNamed) {
  BucketOptions options;
  options.base_side = 500;
  EXPECT_THAT(std::string(MakeBuckets(options).status().message()),
              HasSubstr("base side 500 is not a multiple of the step 64"));
  options = {};
  options.max_aspect = 0.5;
  EXPECT_FALSE(MakeBuckets(options).ok());
  options = {};
  options.step = 0;
  EXPECT_FALSE(MakeBuckets(options).ok());
}

TEST(BucketsTest, ImagesGoToTheNearestShape) {
  const std::vector<ImageSize> buckets = Buckets(512, 64, 2.0);
  EXPECT_EQ(NearestBucket(buckets, {100, 100}), 2);
  EXPECT_EQ(NearestBucket(buckets, {4000, 2}), 4);
  EXPECT_EQ(NearestBucket(buckets, {2, 4000}), 0);
  EXPECT_EQ(NearestBucket(buckets, {3000, 4000}), 1);  // 0.75; 448 / 576 is 0.78, 384 / 640 0.6
  EXPECT_EQ(NearestBucket(buckets, {4000, 3000}), 3);
}

TEST(BucketsTest, ImagesOfRareShapesGoToTheNearestCommonOne) {
  const std::vector<ImageSize> buckets = Buckets(512, 64, 2.0);  // 384 x 640 ... 640 x 384
  const ImageSize high{3, 5}, less_high{7, 9}, square{1, 1}, wide{5, 3}, unknown{};
  const std::vector<ImageSize> images = {high,   high, less_high, square, square,
                                         square, wide, unknown,   wide,   wide};
  EXPECT_EQ(ChooseBuckets(buckets, images, 1),
            (std::vector<int32_t>{0, 0, 1, 2, 2, 2, 4, 2, 4, 4}));
  EXPECT_EQ(ChooseBuckets(buckets, images, 2),
            (std::vector<int32_t>{0, 0, 2, 2, 2, 2, 4, 2, 4, 4}));
  EXPECT_EQ(ChooseBuckets(buckets, images, 3),
            (std::vector<int32_t>{2, 2, 2, 2, 2, 2, 4, 2, 4, 4}));
  EXPECT_EQ(ChooseBuckets(buckets, images, 4), std::vector<int32_t>(10, 2))
      << "too few images of any shape";
  EXPECT_EQ(ChooseBuckets(buckets, {unknown}, 1), std::vector<int32_t>{0});
}

// Compared with the definition: each bucket's sequence, cut into batches.
TEST(BucketedOrderTest, EverySampleOnceAnEpoch) {
  for (int trial = 0; trial < 60; ++trial) {
    RandomStream random(5, trial, 0, RandomPurpose::kTest);
    const int num_buckets = 1 + random.NextBelow(4), batch = 1 + random.NextBelow(6);
    std::vector<int32_t> bucket_of(1 + random.NextBelow(30));
    for (int32_t& bucket : bucket_of) bucket = random.NextBelow(num_buckets);
    const BucketedOrder order(7, bucket_of, num_buckets, batch);
    const int64_t num_epochs = 2 * batch;  // every bucket then has whole batches only
    const int64_t num_steps = order.StepsBefore(num_epochs);
    ASSERT_EQ(num_steps, 2 * static_cast<int64_t>(bucket_of.size()));
    std::map<int32_t, int> seen;
    std::map<std::pair<int, int64_t>, int> batches;
    for (int64_t step = 0; step < num_steps; ++step) {
      const BucketedOrder::Batch at = order.At(step);
      ++batches[{at.bucket, at.number}];
      for (int place = 0; place < batch; ++place) {
        const int32_t sample = order.SampleOf(at, place);
        EXPECT_EQ(bucket_of[sample], at.bucket);
        ++seen[sample];
      }
    }
    ASSERT_EQ(seen.size(), bucket_of.size());
    for (const auto& [sample, times] : seen) EXPECT_EQ(times, num_epochs) << "sample " << sample;
    for (const auto& [number, times] : batches) EXPECT_EQ(times, 1);
  }
}

TEST(BucketedOrderTest, StepsInAnyOrderAreTheSame) {
  const std::vector<int32_t> bucket_of = {0, 1, 1, 0, 2, 0, 0, 1, 0, 0, 1};
  const BucketedOrder forwards(3, bucket_of, 4, 2), backwards(3, bucket_of, 4, 2);
  std::vector<int32_t> a, b;
  for (int64_t step = 0; step < 60; ++step) a.push_back(forwards.SampleOf(forwards.At(step), 1));
  for (int64_t step = 59; step >= 0; --step) b.push_back(backwards.SampleOf(backwards.At(step), 1));
  std::reverse(b.begin(), b.end());
  EXPECT_EQ(a, b);
  const BucketedOrder other(4, bucket_of, 4, 2);
  std::vector<int32_t> c;
  for (int64_t step = 0; step < 60; ++step) c.push_back(other.SampleOf(other.At(step), 1));
  EXPECT_NE(a, c);
}

// Found by going through the steps from the first on.
TEST(BucketedOrderTest, FindsFirstStepsAndStepsToSeeAll) {
  for (int trial = 0; trial < 60; ++trial) {
    RandomStream random(6, trial, 0, RandomPurpose::kTest);
    const int num_buckets = 1 + random.NextBelow(4), batch = 1 + random.NextBelow(6);
    std::vector<int32_t> bucket_of(1 + random.NextBelow(20));
    for (int32_t& bucket : bucket_of) bucket = random.NextBelow(num_buckets);
    const BucketedOrder order(8, bucket_of, num_buckets, batch);
    std::vector<int64_t> first(num_buckets, -1);
    std::set<int32_t> seen;
    for (int64_t step = 0; step < order.StepsToSeeAll(); ++step) {
      const BucketedOrder::Batch at = order.At(step);
      if (first[at.bucket] < 0) first[at.bucket] = step;
      for (int place = 0; place < batch; ++place) seen.insert(order.SampleOf(at, place));
    }
    EXPECT_EQ(seen.size(), bucket_of.size());
    for (int b = 0; b < num_buckets; ++b) EXPECT_EQ(order.FirstStepOf(b), first[b]) << b;
  }
}

TEST(BucketedOrderTest, BucketsAreMixed) {
  std::vector<int32_t> bucket_of(400);
  for (size_t i = 0; i < bucket_of.size(); ++i) bucket_of[i] = i % 2;
  const BucketedOrder order(1, bucket_of, 2, 4);
  int changes = 0;
  for (int64_t step = 1; step < 100; ++step) {
    changes += order.At(step).bucket != order.At(step - 1).bucket;
  }
  EXPECT_GT(changes, 30);
  EXPECT_LT(changes, 70);
}

TEST(BucketedOrderTest, SubstitutesComeFromTheSamePermutation) {
  const std::vector<int32_t> bucket_of = {0, 1, 0, 0, 1, 0};
  const BucketedOrder order(2, bucket_of, 2, 3);
  for (int64_t step = 0; step < 12; ++step) {
    const BucketedOrder::Batch batch = order.At(step);
    for (int place = 0; place < 3; ++place) {
      std::vector<int32_t> candidates;
      for (int32_t skip = 0; skip < order.bucket_size(batch.bucket); ++skip) {
        candidates.push_back(order.SampleOf(batch, place, skip));
      }
      std::sort(candidates.begin(), candidates.end());
      EXPECT_EQ(candidates, batch.bucket == 0 ? (std::vector<int32_t>{0, 2, 3, 5})
                                              : (std::vector<int32_t>{1, 4}));
    }
  }
}

}  // namespace
}  // namespace dpipe
