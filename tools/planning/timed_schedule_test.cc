#include "tools/planning/timed_schedule.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::HasSubstr;

ScheduleRequest Request(int devices, int micro_batches) {
  ScheduleRequest request;
  request.num_devices = devices;
  request.num_micro_batches = micro_batches;
  return request;
}

// 1F1B and GPipe idle for (p - 1) (F + B) of (m + p - 1) (F + B), ZB-V not at all in the middle.
TEST(TimedScheduleTest, ClosedForms) {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (const int p : {2, 4}) {
      const auto timed = SimulateSchedule(name, Request(p, 8), {1, 1.5, 0.5, 0});
      ASSERT_TRUE(timed.ok()) << timed.status();
      EXPECT_NEAR(timed->step, 3 * (8 + p - 1), 1e-6) << name << p;
      EXPECT_NEAR(timed->bubble_ratio, (p - 1) / (8.0 + p - 1), 1e-6) << name << p;
    }
  }
  // Two stages per device: 8 micro-batches take 8 * 2 * 3, and each of the p - 1 = 3 devices
  // before the last waits for one pass.
  const auto zb_v = SimulateSchedule("zb-v", Request(4, 8), {1, 1, 1, 0});
  ASSERT_TRUE(zb_v.ok()) << zb_v.status();
  EXPECT_NEAR(zb_v->step, 48 + 3, 1e-6);
}

// A message between two devices delays the first forward pass and the last backward pass.
TEST(TimedScheduleTest, MessagesTakeTime) {
  const auto timed = SimulateSchedule("gpipe", Request(2, 1), {1, 1, 1, 0.25});
  ASSERT_TRUE(timed.ok()) << timed.status();
  EXPECT_NEAR(timed->step, 2 * 3 + 2 * 0.25, 1e-6);
}

TEST(TimedScheduleTest, EveryScheduleRuns) {
  for (const std::string& name : ScheduleNames()) {
    const int devices = name == "single" ? 1 : 4;
    const PassTimes times = {1, 1, 1, 0.1};
    const auto timed = SimulateSchedule(name, Request(devices, 8), times);
    ASSERT_TRUE(timed.ok()) << name << ": " << timed.status();
    EXPECT_GE(timed->bubble_ratio, 0) << name;
    const auto text = TimedScheduleText(*timed, times);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr("Times:      forward 1, input gradient 1, weight gradient 1, "
                                 "message 0.1\nStep:       "));
  }
}

TEST(TimedScheduleTest, WrongTimesAreRefused) {
  EXPECT_EQ(ParsePassTimes("1,1.5,0.5,0.25")->message, 0.25);
  for (const char* text : {"", "1", "1,1", "1,1,1,1,1", "a,1,1", "-1,1,1", "0,0,0", "1,1,1e7"}) {
    EXPECT_THAT(std::string(ParsePassTimes(text).status().message()),
                HasSubstr(std::string("times '") + text + "': expected"));
  }
}

}  // namespace
}  // namespace dpipe::tools
