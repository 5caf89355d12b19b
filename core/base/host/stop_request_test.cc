#include "core/base/host/stop_request.h"

#include <string>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(StopRequestTest, TheFirstSignalIsNoted) {
  for (const auto& [number, name] :
       {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM"), std::pair(SIGHUP, "SIGHUP")}) {
    StopRequest request;
    EXPECT_EQ(request.signal(), nullptr);
    std::raise(number);
    ASSERT_NE(request.signal(), nullptr);
    EXPECT_EQ(request.signal(), std::string(name));
    EXPECT_EQ(SignalNamed(request.signal()), number);
  }
}

TEST(StopRequestTest, ItIsAcknowledgedAtOnce) {
  StopRequest request("saving");
  testing::internal::CaptureStderr();
  EXPECT_FALSE(SignalWasNoted());
  std::raise(SIGTERM);
  EXPECT_TRUE(SignalWasNoted());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "SIGTERM: saving\n");
}

// What the program does at a signal may change while it runs.
TEST(StopRequestTest, TheAcknowledgmentMayChange) {
  StopRequest request("ending");
  request.Acknowledge("saving");
  testing::internal::CaptureStderr();
  std::raise(SIGINT);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "SIGINT: saving\n");
}

TEST(StopRequestTest, TheSecondOneKills) {
  EXPECT_EXIT(
      {
        StopRequest request;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
  // Also if it is a different signal.
  EXPECT_EXIT(
      {
        StopRequest request;
        std::raise(SIGTERM);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

// As the kernel and a shell send it when their terminal is closed.
TEST(StopRequestTest, SighupMayComeTwice) {
  StopRequest request;
  std::raise(SIGHUP);
  std::raise(SIGHUP);
  EXPECT_EQ(request.signal(), std::string("SIGHUP"));
}

TEST(StopRequestTest, SighupStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    StopRequest request;
    std::raise(SIGHUP);
    EXPECT_EQ(request.signal(), nullptr);
  }
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopRequestTest, SignalsAreRestored) {
  { StopRequest request; }
  EXPECT_EXIT(std::raise(SIGINT), testing::KilledBySignal(SIGINT), "");
}

TEST(StopRequestTest, SignalNamesMayBeFollowedByText) {
  EXPECT_EQ(SignalNamed("SIGTERM to rank 2"), SIGTERM);
  EXPECT_EQ(SignalNamed("the file STOP"), 0);
}

}  // namespace
}  // namespace dpipe
