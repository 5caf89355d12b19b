#include "core/schedule/tuning/tune_order.h"

#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::vector<int> PeaksOf(const Schedule& schedule) {
  std::vector<int> peaks;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    peaks.push_back(schedule.PeakStashedOnDevice(d));
  }
  return peaks;
}

// F F B B on two devices: 1f1b would keep less but take as long.
TEST(TuneOrderTest, KeepsTheBestSchedule) {
  const Schedule gpipe = NamedSchedule("gpipe", 2, 2);
  TuneOrderOptions options;
  options.costs.assign(2, {1, 1, 1});
  const Schedule tuned = TuneOrder(gpipe, options);
  EXPECT_EQ(tuned.ToString(), gpipe.ToString());
}

TEST(TuneOrderTest, UsesAvailableMemory) {
  RandomStream stream(32, 0, 0, RandomPurpose::kTest);
  Nanos within = 0, without = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const Schedule schedule = NamedSchedule("zb-h1", 4, 8);
    TuneOrderOptions options;
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(100)); };
    for (int s = 0; s < 4; ++s) options.costs.push_back({draw(), draw(), draw()});
    within += TuneOrder(schedule, options).Makespan(options.costs);
    options.device_limits.assign(4, 0);
    without += TuneOrder(schedule, options).Makespan(options.costs);
  }
  EXPECT_LT(without, within);
}

TEST(TuneOrderTest, NeverWorseAndWithinLimitsAtRandomCosts) {
  RandomStream stream(31, 0, 0, RandomPurpose::kTest);
  int better = 0;
  const std::vector<std::string> names = {"1f1b",        "zb-h1",      "zb-v",       "chimera",
                                          "cascaded-zb", "cascaded-v", "interleaved"};
  for (int trial = 0; trial < 70; ++trial) {
    const std::string& name = names[trial % names.size()];
    const int p = 2 * (1 + static_cast<int>(stream.NextBelow(2)));
    const int m = p * (1 + static_cast<int>(stream.NextBelow(2)));
    const int num_stages = NamedSchedule(name, p, m).num_stages();
    TuneOrderOptions options;
    options.max_tried = 30;
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(100)); };
    for (int s = 0; s < num_stages; ++s) options.costs.push_back({draw(), draw(), draw()});
    const Schedule schedule = NamedSchedule(name, p, m, options.costs);
    const Schedule tuned = TuneOrder(schedule, options);
    ASSERT_TRUE(tuned.Verify().ok()) << name << tuned.Verify();
    EXPECT_EQ(tuned.name(), name);
    const Nanos before = schedule.Makespan(options.costs), after = tuned.Makespan(options.costs);
    EXPECT_LE(after, before) << name;
    EXPECT_GE(after, MakespanBound(schedule, options.costs)) << name;
    better += after < before;
    const std::vector<int> limits = PeaksOf(schedule), peaks = PeaksOf(tuned);
    for (int d = 0; d < p; ++d) EXPECT_LE(peaks[d], limits[d]) << name;
    // Deterministic.
    EXPECT_EQ(TuneOrder(schedule, options).ToString(), tuned.ToString());
  }
  EXPECT_GT(better, 5);
}

}  // namespace
}  // namespace dpipe
