#include "core/tensor/cuda/pinned_staging.h"

#include <vector>

#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int> Numbers(int64_t size_bytes) {
  std::vector<int> numbers(size_bytes / sizeof(int));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * 2654435761u);
  return numbers;
}

// Covers fewer pieces than buffers, exactly as many, more, and an incomplete last piece.
TEST(PinnedStagingTest, AllBytesSurviveRoundTrip) {
  for (int64_t size : {int64_t{4}, PinnedStaging::kBufferBytes, 4 * PinnedStaging::kBufferBytes,
                       6 * PinnedStaging::kBufferBytes + 1000}) {
    FakeDriver driver(size);
    const Stream stream = *driver.CreateStream({});
    PinnedStaging staging(&driver, {});
    const Pool pool = *driver.CreatePool({});
    void* const data = *driver.Allocate(pool, size, stream);
    std::vector<int> numbers = Numbers(size);
    ASSERT_TRUE(staging.ToDevice(data, numbers.data(), size, stream).ok());
    const std::vector<int> expected = numbers;
    std::fill(numbers.begin(), numbers.end(), 0);  // the source may be overwritten now
    std::vector<int> back(numbers.size());
    ASSERT_TRUE(staging.ToHost(back.data(), data, size, stream).ok());
    EXPECT_EQ(back, expected) << size << " bytes";
    EXPECT_THAT(driver.violations(), IsEmpty());
  }
}

TEST(PinnedStagingTest, PinnedMemoryIsAllocatedLazilyAndFreed) {
  FakeDriver driver;
  const Stream stream = *driver.CreateStream({});
  const Pool pool = *driver.CreatePool({});
  void* const data = *driver.Allocate(pool, 64, stream);
  const int before = driver.num_live_handles();
  {
    PinnedStaging staging(&driver, {});
    EXPECT_EQ(driver.num_live_handles(), before);
    const std::vector<int> numbers = Numbers(64);
    ASSERT_TRUE(staging.ToDevice(data, numbers.data(), 64, stream).ok());
    EXPECT_EQ(driver.num_live_handles(), before + 2) << "one buffer, one event";
  }
  EXPECT_EQ(driver.num_live_handles(), before);
}

TEST(PinnedStagingTest, ErrorsArePassedOn) {
  FakeDriver driver;
  const Stream stream = *driver.CreateStream({});
  PinnedStaging staging(&driver, {});
  int number = 0;
  driver.FailNext("AllocatePinned");
  EXPECT_THAT(std::string(staging.ToDevice(&number, &number, 4, stream).message()),
              HasSubstr("AllocatePinned"));
}

}  // namespace
}  // namespace dpipe::cuda
