#include "core/schedule/builders/one_after_another.h"

#include <string>

#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(OneAfterAnotherTest, TheSecondWarmsUpWhileTheFirstCoolsDown) {
  const Schedule first = *MakeSchedule("1f1b", {2, 2}), second = *MakeSchedule("1f1b", {2, 1});
  const absl::StatusOr<Schedule> both = OneAfterAnother({first, second});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->ToString(),
            "F0.0 F0.1 B0.0 B0.1 F2.0 B2.0\n"
            "F1.0 B1.0 F1.1 B1.1 F3.0 B3.0\n");
  EXPECT_EQ(both->num_micro_batches(0), 2);
  EXPECT_EQ(both->num_micro_batches(1), 1);
  // Alone they take 6 and 4; device 1 is free at 5, when device 0 has one more backward to do.
  EXPECT_EQ(first.Makespan(PassCosts{1, 1, 0}), 6);
  EXPECT_EQ(both->Makespan(PassCosts{1, 1, 0}), 10);
}

TEST(OneAfterAnotherTest, DifferentNumbersOfDevicesAreRefused) {
  const Schedule two = *MakeSchedule("gpipe", {2, 2}), three = *MakeSchedule("gpipe", {3, 2});
  EXPECT_EQ(OneAfterAnother({two, three}).status().message(),
            "schedule gpipe of backbone 1 has 3 devices and that of backbone 0 has 2");
  EXPECT_FALSE(OneAfterAnother({}).ok());
  EXPECT_EQ(OneAfterAnother({two})->ToString(), two.ToString());
}

TEST(RepeatedTest, TwiceByHand) {
  const absl::StatusOr<Schedule> twice = Repeated(*MakeSchedule("1f1b", {2, 2}), 2);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(twice->ToString(),
            "F0 F1 B0 B1 F2 F3 B2 B3\n"
            "F0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(Repeated(*twice, 0).status().message(), "a schedule is repeated at least once; got 0");
}

TEST(RepeatedTest, TakesAtMostAsOftenAsLongAndAsMuchMemory) {
  for (const std::string& name : ScheduleNames()) {
    const absl::StatusOr<Schedule> once = MakeSchedule(name, {4, 8});
    if (!once.ok()) continue;
    const absl::StatusOr<Schedule> thrice = Repeated(*once, 3);
    ASSERT_TRUE(thrice.ok()) << name << ": " << thrice.status();
    EXPECT_EQ(thrice->num_micro_batches(), 3 * once->num_micro_batches()) << name;
    const PassCosts costs = {3, 4, 2};
    EXPECT_LE(thrice->Makespan(costs), 3 * once->Makespan(costs)) << name;
    for (int d = 0; d < 4; ++d) {
      EXPECT_EQ(thrice->PeakStashedOnDevice(d), once->PeakStashedOnDevice(d)) << name;
    }
  }
}

}  // namespace
}  // namespace dpipe
