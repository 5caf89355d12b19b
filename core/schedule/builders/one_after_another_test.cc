#include "core/schedule/builders/one_after_another.h"

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

}  // namespace
}  // namespace dpipe
