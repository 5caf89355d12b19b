#include "core/schedule/builders/schedule_choice.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr Pass F = Pass::kForward;
constexpr Pass B = Pass::kBackward;

// kInTurn runs one micro-batch after the other, kAhead all forwards first. Makespans are 6 and 5 at
// F=1, B=1 (I=1, W=0).
const std::vector<std::vector<Slot>> kInTurn = {{{F, 0}, {B, 0}, {F, 1}, {B, 1}},
                                                {{F, 0}, {B, 0}, {F, 1}, {B, 1}}};
const std::vector<std::vector<Slot>> kAhead = {{{F, 0}, {F, 1}, {B, 0}, {B, 1}},
                                               {{F, 0}, {B, 0}, {F, 1}, {B, 1}}};

ScheduleRequest RequestOf(int peak_limit) {
  ScheduleRequest request;
  request.num_devices = request.num_micro_batches = 2;
  request.peak_limit = peak_limit;
  request.costs.assign(2, {1, 1, 0});
  return request;
}

TEST(ScheduleChoiceTest, KeepsTheShortest) {
  const ScheduleRequest request = RequestOf(0);
  ScheduleChoice choice(request);
  EXPECT_FALSE(choice.IsAtBound());
  choice.Offer(Schedule::CreateStraight("in turn", 2, kInTurn));
  choice.Offer(Schedule::CreateStraight("ahead", 2, kAhead));
  choice.Offer(Schedule::CreateStraight("in turn again", 2, kInTurn));
  choice.Offer(absl::InvalidArgumentError("none"));
  EXPECT_FALSE(choice.IsAtBound());  // device 1 starts at 1 and works 4; the makespan is 6
  EXPECT_EQ(choice.Take()->name(), "ahead");
}

TEST(ScheduleChoiceTest, RespectsTheLimit) {
  const ScheduleRequest request = RequestOf(1);
  ScheduleChoice choice(request);
  choice.Offer(Schedule::CreateStraight("ahead", 2, kAhead));
  EXPECT_EQ(choice.Take().status().message(),
            "schedule ahead: device 0 keeps 2 pairs of stage and micro-batch, more than the limit "
            "of 1");
  choice.Offer(Schedule::CreateStraight("in turn", 2, kInTurn));
  EXPECT_EQ(choice.Take()->name(), "in turn");
}

TEST(ScheduleChoiceTest, BoundIsEntryTimePlusLoad) {
  const auto schedule = Schedule::CreateStraight("ahead", 2, kAhead);
  EXPECT_EQ(MakespanBound(*schedule, {{1, 1, 0}, {1, 1, 0}}), 1 + 4);
  EXPECT_EQ(MakespanBound(*schedule, {{3, 1, 2}, {1, 1, 0}}), 12);
  EXPECT_EQ(MaxPeakStashed(*schedule), 2);
}

TEST(ScheduleChoiceTest, FailsIfNothingWasOffered) {
  const ScheduleRequest request = RequestOf(0);
  EXPECT_EQ(ScheduleChoice(request).Take().status().message(), "no schedule was offered");
}

}  // namespace
}  // namespace dpipe
