#include "data/order/step_order.h"

#include <set>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

StepOrderOptions Options(int64_t first_step) {
  StepOrderOptions options;
  options.seed = 11;
  options.first_step = first_step;
  options.global_batch = 4;
  options.size = {8, 8};
  return options;
}

TEST(StepOrderTest, OrderFromTheBeginningEqualsSampleOrder) {
  EXPECT_EQ(OrderSeed(11, 0), 11u);
  const StepOrder order(Options(0), 10, {});
  for (int64_t step = 0; step < 8; ++step) {
    for (int place = 0; place < 4; ++place) {
      const int64_t position = step * 4 + place;
      EXPECT_EQ(order.SampleAt(step, place), EpochOrder(11, position / 10, 10)[position % 10]);
    }
  }
}

// By the definition in the header.
TEST(StepOrderTest, ALaterOrderBeginsAtItsFirstStep) {
  const StepOrder order(Options(1000), 10, {});
  const uint64_t seed = OrderSeed(11, 1000);
  std::set<int32_t> first_epoch;
  for (int64_t step = 1000; step < 1008; ++step) {
    for (int place = 0; place < 4; ++place) {
      const int64_t position = (step - 1000) * 4 + place;
      EXPECT_EQ(order.SampleAt(step, place), EpochOrder(seed, position / 10, 10)[position % 10]);
      if (position < 10) first_epoch.insert(order.SampleAt(step, place));
    }
  }
  EXPECT_EQ(first_epoch.size(), 10u) << "its first epoch begins with its first step";
}

TEST(StepOrderTest, EveryFirstStepAndSeedHasItsOwnOrder) {
  std::set<uint64_t> seeds;
  for (uint64_t seed : {1, 2}) {
    for (int64_t step = 0; step < 500; ++step) seeds.insert(OrderSeed(seed, step));
  }
  EXPECT_EQ(seeds.size(), 1000u);
}

TEST(StepOrderTest, SubstitutesStayInTheEpoch) {
  const StepOrder order(Options(3), 5, {});
  for (int64_t step = 3; step < 9; ++step) {
    for (int place = 0; place < 4; ++place) {
      std::set<int32_t> candidates;
      for (int32_t skip = 0; skip < order.NumCandidates(step); ++skip) {
        candidates.insert(order.SampleAt(step, place, skip));
      }
      EXPECT_EQ(candidates, (std::set<int32_t>{0, 1, 2, 3, 4}));
    }
  }
}

TEST(StepOrderTest, LaterOrderOfBucketsEqualsBucketedOrder) {
  StepOrderOptions options = Options(20);
  options.buckets = {{8, 8}, {16, 4}};
  std::vector<ImageSize> images;
  std::vector<int32_t> bucket_of;
  for (int i = 0; i < 17; ++i) {
    bucket_of.push_back(i % 3 == 0 ? 1 : 0);
    images.push_back(i % 3 == 0 ? ImageSize{40, 10} : ImageSize{30, 30});
  }
  const StepOrder order(options, 17, images);
  const BucketedOrder expected(OrderSeed(11, 20), bucket_of, 2, 4);
  for (int64_t step = 20; step < 50; ++step) {
    const BucketedOrder::Batch batch = expected.At(step - 20);
    EXPECT_EQ(order.SizeOf(step).width, batch.bucket == 1 ? 16 : 8);
    EXPECT_EQ(order.NumCandidates(step), batch.bucket == 1 ? 6 : 11);
    for (int place = 0; place < 4; ++place) {
      EXPECT_EQ(order.SampleAt(step, place), expected.SampleOf(batch, place));
      EXPECT_EQ(order.SampleAt(step, place, 2), expected.SampleOf(batch, place, 2));
    }
  }
  const auto sizes = order.SizesInUse();
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0].num_samples, 11);
  EXPECT_EQ(sizes[1].num_samples, 6);
  for (const auto& use : sizes) {
    EXPECT_GE(use.first_step, 20);
    EXPECT_EQ(order.SizeOf(use.first_step).width, use.size.width);
  }
  EXPECT_EQ(order.SizeOfSample(3).width, 16);
  EXPECT_EQ(order.StepsToSeeAll(), expected.StepsToSeeAll());
}

}  // namespace
}  // namespace dpipe
