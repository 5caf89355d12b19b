#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/generators.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(DualPipeVTest, IdleIsTheWayToTheLastDevice) {
  for (int p = 1; p <= 12; ++p) {
    for (int m = 2 * p; m <= 4 * p; ++m) {
      const auto schedule = MakeSchedule("dualpipe-v", RequestOf(p, m));
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(schedule->Makespan({1, 1, 1}), 6 * m + p - 1) << p << " " << m;
      for (int d = 0; d < p; ++d) {
        EXPECT_EQ(schedule->PeakStashedOnDevice(d), p == 1 ? 3 : 2 * p + 1) << p << " " << m;
      }
    }
  }
}

TEST(DualPipeVTest, TwoDevicesByHand) {
  // Stages 0 and 3 are on device 0. One device comes after device 0, none after device 1.
  EXPECT_EQ(MakeSchedule("dualpipe-v", RequestOf(2, 4))->ToString(),
            "F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 F0.3 B3.1 F3.2 B0.0 B3.2 F3.3 B0.1 B3.3 I0.2 "
            "W0.2 I0.3 W0.3\n"
            "F1.0 F2.0 F1.1 F2.1 F1.2 B2.0 F2.2 B1.0 F1.3 B2.1 F2.3 B1.1 B2.2 B1.2 I2.3 I1.3 "
            "W2.3 W1.3\n");
}

TEST(DualPipeVTest, RefusesTooFewMicroBatchesAndTooLowALimit) {
  EXPECT_EQ(MakeSchedule("dualpipe-v", RequestOf(3, 5)).status().message(),
            "schedule dualpipe-v: 5 micro-batches; it needs at least 2 for each of the 3 devices");
  EXPECT_EQ(MakeSchedule("dualpipe-v", RequestOf(3, 6, 6)).status().message(),
            "schedule dualpipe-v: device 0 keeps 7 pairs of stage and micro-batch, more than the "
            "limit of 6");
  EXPECT_TRUE(MakeSchedule("dualpipe-v", RequestOf(3, 6, 7)).ok());
}

}  // namespace
}  // namespace dpipe
