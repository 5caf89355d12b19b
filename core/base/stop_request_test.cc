#include "core/base/stop_request.h"

#include <string>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(StopRequestTest, TheFirstSignalIsNoted) {
  for (const auto& [number, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM")}) {
    StopRequest request;
    EXPECT_EQ(request.signal(), nullptr);
    std::raise(number);
    ASSERT_NE(request.signal(), nullptr);
    EXPECT_EQ(request.signal(), std::string(name));
  }
}

TEST(StopRequestTest, TheSecondOneKills) {
  EXPECT_EXIT(
      {
        StopRequest request;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(StopRequestTest, WithoutOneSignalsDoWhatTheyDid) {
  { StopRequest request; }
  EXPECT_EXIT(std::raise(SIGINT), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace dpipe
