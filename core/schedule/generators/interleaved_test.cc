// [algorithms.md §5]: interleaved-v.
#include <algorithm>

#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

ScheduleRequest Request(int num_devices, int num_micro_batches, int stages_per_device) {
  ScheduleRequest request;
  request.num_devices = num_devices;
  request.num_micro_batches = num_micro_batches;
  request.stages_per_device = stages_per_device;
  return request;
}

TEST(InterleavedTest, TwoDevicesByHand) {
  // Device 0 runs 2 + 2 = 4 forward passes ahead, which is all of them; device 1 runs 2.
  EXPECT_EQ(MakeSchedule("interleaved", Request(2, 2, 0))->ToString(),
            "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1\n"
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1\n");
}

TEST(InterleavedTest, BubbleIsTheClosedForm) {
  for (int p = 1; p <= 8; ++p) {
    for (int v = 2; v <= 5; ++v) {
      for (int m = p; m <= 5 * p; m += p) {
        const auto schedule = MakeSchedule("interleaved", Request(p, m, v));
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        for (const PassCosts& costs :
             {PassCosts{1, 1, 0}, PassCosts{1, 1, 1}, PassCosts{3, 1, 0}, PassCosts{2, 3, 2}}) {
          const Nanos both = costs.forward + costs.input_grad + costs.weight_grad;
          EXPECT_EQ(schedule->Makespan(costs), (v * m + p - 1) * both) << p << " " << v << " " << m;
          EXPECT_NEAR(schedule->BubbleRatio(costs), (p - 1.0) / (v * m + p - 1), 1e-12);
        }
        // The forward passes that device d runs ahead, and the one before its first backward pass.
        for (int d = 0; d < p; ++d) {
          EXPECT_EQ(schedule->PeakStashedOnDevice(d),
                    std::min(v * m, 2 * (p - 1 - d) + (v - 1) * p + 1));
        }
      }
    }
  }
}

TEST(InterleavedTest, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(MakeSchedule("interleaved", Request(4, 6, 2)).status().message(),
            "schedule interleaved: 6 micro-batches are not a multiple of the 4 devices");
  EXPECT_EQ(MakeSchedule("interleaved", Request(4, 8, 1)).status().message(),
            "schedule interleaved: 1 stages per device; it needs 2 or more");
}

}  // namespace
}  // namespace dpipe
