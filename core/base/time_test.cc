#include "core/base/time.h"

#include <limits>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(FormatDurationTest, ChoosesASuitableUnit) {
  EXPECT_EQ(FormatDuration(412 * kNanosPerMicro), "412 us");
  EXPECT_EQ(FormatDuration(3210 * kNanosPerMicro), "3.21 ms");
  EXPECT_EQ(FormatDuration(-1500 * kNanosPerMilli), "-1.50 s");
  EXPECT_EQ(FormatDuration(125 * kNanosPerSecond), "2 min 05 s");
}

TEST(FormatDurationTest, HandlesExtremes) {
  EXPECT_EQ(FormatDuration(std::numeric_limits<Nanos>::max()), "153722867 min 16 s");
  EXPECT_EQ(FormatDuration(std::numeric_limits<Nanos>::min()), "-153722867 min 16 s");
}

}  // namespace
}  // namespace dpipe
