#include "core/base/count.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(CountTest, OneIsSingular) {
  EXPECT_EQ(Count(1, "step"), "1 step");
  EXPECT_EQ(Count(0, "step"), "0 steps");
  EXPECT_EQ(Count(23, "CPU device"), "23 CPU devices");
}

}  // namespace
}  // namespace dpipe
