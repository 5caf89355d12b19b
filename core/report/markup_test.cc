#include "core/report/markup.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(MarkupTest, Escapes) {
  EXPECT_EQ(EscapeMarkup("a<b>&\"'\x01é"), "a&lt;b&gt;&amp;&quot;&#39; é");
}

TEST(MarkupTest, Numbers) {
  EXPECT_EQ(NumberText(12.34567), "12.3457");
  EXPECT_EQ(NumberText(100), "100");
  EXPECT_EQ(NumberText(-0.00001), "0");
}

TEST(MarkupTest, DurationsHaveThreeDigits) {
  EXPECT_EQ(ShortDuration(0), "0 µs");
  EXPECT_EQ(ShortDuration(412'300), "412 µs");
  EXPECT_EQ(ShortDuration(999'700), "1.00 ms");
  EXPECT_EQ(ShortDuration(12'340'000), "12.3 ms");
  EXPECT_EQ(ShortDuration(123'400'000), "123 ms");
  EXPECT_EQ(ShortDuration(1.5e9), "1.50 s");
}

TEST(MarkupTest, Percents) {
  EXPECT_EQ(PercentText(0.0421), "4.2 %");
  EXPECT_EQ(PercentText(std::nan("")), "-");
}

TEST(MarkupTest, TicksAreNiceAndFewEnough) {
  EXPECT_DOUBLE_EQ(NiceTick(100, 10), 10);
  EXPECT_DOUBLE_EQ(NiceTick(101, 10), 20);
  EXPECT_DOUBLE_EQ(NiceTick(0.31, 10), 0.05);
  for (double range = 0.001; range < 1e6; range *= 1.37) {
    EXPECT_LE(range / NiceTick(range, 10), 10 + 1e-6) << range;
    EXPECT_GE(range / NiceTick(range, 10), 3.9) << range;
  }
}

}  // namespace
}  // namespace dpipe::report
