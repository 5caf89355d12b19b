#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Schedule Make(const ScheduleRequest& request) {
  auto schedule = MakeSchedule("wave", request);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

ScheduleRequest RequestOf(int p, int m) {
  ScheduleRequest request;
  request.num_devices = p;
  request.num_micro_batches = m;
  return request;
}

TEST(WaveTest, MakespanMatchesClosedForm) {
  for (int p = 1; p <= 10; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = Make(RequestOf(p, m));
      for (const PassCosts& costs : {PassCosts{1, 1, 0}, PassCosts{1, 1, 1}, PassCosts{2, 3, 2}}) {
        const Nanos backward = costs.input_grad + costs.weight_grad;
        EXPECT_EQ(schedule.Makespan(costs),
                  2 * m * (costs.forward + backward) + 2 * (p - 1) * backward)
            << p << " " << m;
      }
      EXPECT_EQ(MaxPeakStashed(schedule), std::min(2 * m, 2 * p));
    }
  }
}

TEST(WaveTest, MirroredStagesShareDevices) {
  const Schedule schedule = Make(RequestOf(3, 4));
  for (int k = 0; k < 6; ++k) EXPECT_EQ(schedule.DeviceOf(k), schedule.DeviceOf(5 - k));
}

TEST(WaveTest, NoSlowerWithCosts) {
  RandomStream stream(7, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 100; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(6));
    ScheduleRequest request = RequestOf(p, 1 + static_cast<int>(stream.NextBelow(14)));
    const Schedule plain = Make(request);
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(50)); };
    for (int s = 0; s < 2 * p; ++s) request.costs.push_back({draw(), draw(), draw()});
    const Schedule schedule = Make(request);
    EXPECT_LE(schedule.Makespan(request.costs), plain.Makespan(request.costs));
    EXPECT_GE(schedule.Makespan(request.costs), MakespanBound(schedule, request.costs));
    EXPECT_LE(MaxPeakStashed(schedule), 2 * p);
    request.peak_limit = 2 + static_cast<int>(stream.NextBelow(2 * p));
    EXPECT_LE(MaxPeakStashed(Make(request)), request.peak_limit);
  }
}

}  // namespace
}  // namespace dpipe
