#include "core/tensor/cuda/driver.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::HasSubstr;

// An H200 has 132 multiprocessors, in multiples of eight.
TEST(PartitionTest, SharesAreEqualAndAsLargeAsAllowed) {
  FakeDriver driver;
  const Gpu gpu = driver.gpus()[0];
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, gpu, 1), 128);
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, gpu, 2), 64);
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, gpu, 4), 32);
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, gpu, 16), 8);
}

TEST(PartitionTest, SharesShrinkIfClustersAllowFewer) {
  FakeDriver driver;
  driver.lost_shares = 1;  // there are only 3 shares of 32 multiprocessors, but 4 of 24
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, driver.gpus()[0], 4), 24);
}

TEST(PartitionTest, ErrorForTooManySharesNamesGpuAndLimit) {
  FakeDriver driver;
  const Gpu gpu = driver.gpus()[0];
  const auto share = MultiprocessorsOfShare(&driver, gpu, 17);
  EXPECT_EQ(share.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(share.status().message()),
              HasSubstr("requested 17 virtual GPUs, but GPU 0 (Fake GPU, compute capability 9.0, "
                        "132 multiprocessors"));
  EXPECT_THAT(std::string(share.status().message()),
              HasSubstr("at most 16, of 8 multiprocessors each"));
  EXPECT_EQ(MultiprocessorsOfShare(&driver, gpu, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// GPUs before compute capability 9.0 allow finer shares.
TEST(PartitionTest, UsesRulesOfGpu) {
  FakeDriver driver;
  driver.rules() = {108, 4, 2};
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, driver.gpus()[0], 4), 26);
  EXPECT_EQ(*MultiprocessorsOfShare(&driver, driver.gpus()[0], 27), 4);
  EXPECT_FALSE(MultiprocessorsOfShare(&driver, driver.gpus()[0], 28).ok());
}

}  // namespace
}  // namespace dpipe::cuda
