#include "core/base/host/available_memory.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(AvailableMemoryTest, ParsesMemAvailable) {
  EXPECT_EQ(internal::ParseAvailableMemory("MemTotal:  24000000 kB\nMemFree: 5 kB\n"
                                           "MemAvailable:   12345 kB\nBuffers: 1 kB\n"),
            12345 * 1024);
}

TEST(AvailableMemoryTest, ZeroIfUnknown) {
  EXPECT_EQ(internal::ParseAvailableMemory(""), 0);
  EXPECT_EQ(internal::ParseAvailableMemory("MemAvailable: lots kB\n"), 0);
  EXPECT_EQ(internal::ParseAvailableMemory("MemAvailable: 12"), 0);
}

TEST(AvailableMemoryTest, TightestLimitApplies) {
  EXPECT_EQ(internal::MinAvailable(500, std::nullopt), 500);
  EXPECT_EQ(internal::MinAvailable(500, 400), 400);
  EXPECT_EQ(internal::MinAvailable(500, 600), 500);
  EXPECT_EQ(internal::MinAvailable(0, 600), 600);
  EXPECT_EQ(internal::MinAvailable(0, std::nullopt), 0);
  EXPECT_EQ(internal::MinAvailable(500, 0), 1) << "0 would mean that nothing is known";
}

TEST(AvailableMemoryTest, ThisMachineHasSome) { EXPECT_GE(AvailableMemoryBytes(), 0); }

TEST(AvailableMemoryTest, ErrorNamesNeededAndFreeMemory) {
  EXPECT_TRUE(CheckMemoryFor("a few images", 1).ok());
  const absl::Status status = CheckMemoryFor("many images", 1e17);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message().find("many images need 93132257.5 GiB of memory, but only "), 0)
      << status;
}

}  // namespace
}  // namespace dpipe
