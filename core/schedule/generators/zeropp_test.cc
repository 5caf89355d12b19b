#include <set>
#include <tuple>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

ScheduleRequest RequestOf(int p, int m, int stages_per_device = 0) {
  ScheduleRequest request;
  request.num_devices = p;
  request.num_micro_batches = m;
  request.stages_per_device = stages_per_device;
  return request;
}

Schedule Make(const ScheduleRequest& request) {
  auto schedule = MakeSchedule("zeropp", request);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

// Returns how often a device starts to use the parameters of a stage: runs of forward passes, or of
// input gradients, of one stage.
int NumGathers(const Schedule& schedule, int device) {
  int count = 0;
  std::pair<Pass, int> last = {Pass::kWeightGrad, -1};
  for (const Slot& slot : schedule.slots(device)) {
    if (slot.pass == Pass::kWeightGrad) continue;
    const std::pair<Pass, int> now = {slot.pass, slot.stage};
    count += now != last;
    last = now;
  }
  return count;
}

TEST(ZeroPpTest, IdlesOnlyDuringTheFirstRamp) {
  for (int p = 1; p <= 8; ++p) {
    for (int v = 2; v <= 3; ++v) {
      for (int m = p; m <= 4 * p; ++m) {
        const Schedule schedule = Make(RequestOf(p, m, v));
        EXPECT_EQ(schedule.Makespan({1, 1, 1}), 3 * v * m + 2 * (p - 1)) << p << v << m;
      }
    }
    // A single unit depends on no earlier unit.
    EXPECT_EQ(Make(RequestOf(p, p, 1)).Makespan({1, 1, 1}), 3 * p + 2 * (p - 1));
  }
}

TEST(ZeroPpTest, GathersOncePerStageUnitAndDirection) {
  for (int p = 1; p <= 5; ++p) {
    for (int v = 2; v <= 3; ++v) {
      for (int m = 1; m <= 4 * p; ++m) {
        const Schedule schedule = Make(RequestOf(p, m, v));
        const int units = std::max(1, m / p);
        for (int d = 0; d < p; ++d) {
          // Adjacent blocks of one stage with different passes occur only at the turn.
          EXPECT_EQ(NumGathers(schedule, d), 2 * v * units) << p << " " << v << " " << m;
          EXPECT_LE(schedule.PeakStashedOnDevice(d), 2 * v * ((m + units - 1) / units));
        }
      }
    }
  }
}

TEST(ZeroPpTest, LimitsAndRandomCosts) {
  RandomStream stream(8, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 100; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(6));
    const int v = 1 + static_cast<int>(stream.NextBelow(3));
    ScheduleRequest request = RequestOf(p, 1 + static_cast<int>(stream.NextBelow(20)), v);
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(50)); };
    for (int s = 0; s < v * p; ++s) request.costs.push_back({draw(), draw(), draw()});
    const Schedule schedule = Make(request);
    EXPECT_GE(schedule.Makespan(request.costs), MakespanBound(schedule, request.costs));
    request.peak_limit = v + static_cast<int>(stream.NextBelow(3 * v * p));
    EXPECT_LE(MaxPeakStashed(Make(request)), request.peak_limit) << p << " " << v;
  }
  ScheduleRequest request = RequestOf(2, 2, 3);
  request.peak_limit = 2;
  EXPECT_EQ(MakeSchedule("zeropp", request).status().message(),
            "schedule zeropp: a micro-batch makes 3 pairs on a device, more than the limit of 2");
}

}  // namespace
}  // namespace dpipe
