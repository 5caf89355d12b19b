#include "core/schedule/tuning/justify_order.h"

#include <string>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(JustifyOrderTest, NeverLongerAtRandomCosts) {
  RandomStream stream(33, 0, 0, RandomPurpose::kTest);
  int better = 0;
  const std::vector<std::string> names = {"gpipe",   "1f1b",        "zb-h1",      "zb-v",
                                          "chimera", "cascaded-zb", "cascaded-v", "interleaved"};
  for (int trial = 0; trial < 80; ++trial) {
    const std::string& name = names[trial % names.size()];
    const int p = 2 * (1 + static_cast<int>(stream.NextBelow(2)));
    const int m = p * (1 + static_cast<int>(stream.NextBelow(2)));
    JustifyOptions options;
    options.max_placed = 30;
    options.times.costs = RandomPassCosts(NamedSchedule(name, p, m).num_stages(), stream);
    const Schedule schedule = NamedSchedule(name, p, m, options.times.costs);
    const Schedule justified = JustifyOrder(schedule, options);
    ASSERT_TRUE(justified.Verify().ok()) << name << justified.Verify();
    EXPECT_EQ(justified.name(), name);
    const Nanos before = schedule.Makespan(options.times.costs);
    const Nanos after = justified.Makespan(options.times.costs);
    EXPECT_LE(after, before) << name;
    EXPECT_GE(after, MakespanBound(schedule, options.times.costs)) << name;
    better += after < before;
    // A second run gives the same order.
    EXPECT_EQ(JustifyOrder(schedule, options).ToString(), justified.ToString());
  }
  EXPECT_GT(better, 10);
}

TEST(JustifyOrderTest, NeverLongerWithZeroCosts) {
  RandomStream stream(35, 0, 0, RandomPurpose::kTest);
  const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "zb-v", "cascaded-zb"};
  for (int trial = 0; trial < 100; ++trial) {
    const std::string& name = names[trial % names.size()];
    const Schedule schedule = NamedSchedule(name, 4, 4);
    JustifyOptions options;
    options.times.costs = RandomPassCosts(schedule.num_stages(), stream, /*some_free=*/true);
    options.max_placed = 30;
    const Schedule justified = JustifyOrder(schedule, options);
    ASSERT_TRUE(justified.Verify().ok()) << name << justified.Verify();
    EXPECT_LE(justified.Makespan(options.times.costs), schedule.Makespan(options.times.costs))
        << name;
  }
}

TEST(JustifyOrderTest, RespectsStageLimits) {
  RandomStream stream(34, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 20; ++trial) {
    const Schedule schedule = NamedSchedule(trial % 2 == 0 ? "gpipe" : "zb-v", 4, 8);
    JustifyOptions options;
    options.max_placed = 20;
    for (int s = 0; s < schedule.num_stages(); ++s) {
      const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(100)); };
      options.times.costs.push_back({draw(), draw(), draw()});
      options.times.stage_limits.push_back(1 + static_cast<int>(stream.NextBelow(4)));
    }
    const Schedule justified = JustifyOrder(schedule, options);
    for (int s = 0; s < schedule.num_stages(); ++s) {
      EXPECT_LE(justified.PeakStashed(s), options.times.stage_limits[s]) << s;
    }
  }
}

// Device 0 runs all passes of one backbone before the other: the first message of the other takes
// longer than all these passes.
TEST(JustifyOrderTest, AccountsForMessageTimes) {
  const Schedule schedule = NamedSchedule("cascaded-zb", 2, 1);
  JustifyOptions options;
  options.times.costs.assign(4, {1, 1, 1});
  options.times.forward_delay_ns = {0, 0, 100, 0};
  options.times.gradient_delay_ns.assign(4, 0);
  const Schedule justified = JustifyOrder(schedule, options);
  std::string stages;
  for (const Slot& slot : justified.slots(0)) stages += std::to_string(slot.stage);
  EXPECT_EQ(stages, "000333");
}

// Device 0 is ready late, so device 1 runs its own stage first, before stages that need device 0.
TEST(JustifyOrderTest, AccountsForReadyTimes) {
  const Schedule schedule = NamedSchedule("cascaded-zb", 2, 1);
  JustifyOptions options;
  options.times.costs.assign(4, {1, 1, 1});
  options.times.ready_ns = {100, 0};
  const Schedule justified = JustifyOrder(schedule, options);
  EXPECT_EQ(justified.slots(1)[0].stage, 2);
}

}  // namespace
}  // namespace dpipe
