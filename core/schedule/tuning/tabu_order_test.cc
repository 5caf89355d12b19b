#include "core/schedule/tuning/tabu_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Branch and bound over all orders in which passes may start.
class Exhaustive {
 public:
  explicit Exhaustive(const PassGraph& graph)
      : graph_(graph), free_(graph.num_devices(), 0), end_(graph.num_ops(), -1) {
    for (int d = 0; d < graph.num_devices(); ++d) free_[d] = graph.ReadyNs(d);
    for (int op = 0; op < graph.num_ops(); ++op) missing_.push_back(graph.Before(op).size());
  }

  Nanos Makespan() {
    Extend(0, 0);
    return best_;
  }

 private:
  void Extend(int num_placed, Nanos makespan) {
    if (makespan >= best_) return;
    if (num_placed == graph_.num_ops()) best_ = makespan;
    for (int op = 0; op < graph_.num_ops(); ++op) {
      if (end_[op] >= 0 || missing_[op] > 0) continue;
      const PassGraph::Op& pass = graph_.op(op);
      const Nanos free = free_[pass.device];
      Nanos start = free;
      for (const PassGraph::Arc& arc : graph_.Before(op)) {
        start = std::max(start, end_[arc.op] + arc.delay_ns);
      }
      // Visits passes in order of start time, so that orders that differ only in the order of their
      // construction are visited once.
      if (start < last_start_) continue;
      const Nanos last_start = last_start_;
      last_start_ = start;
      free_[pass.device] = end_[op] = start + pass.ns;
      for (const PassGraph::Arc& arc : graph_.After(op)) --missing_[arc.op];
      Extend(num_placed + 1, std::max(makespan, end_[op]));
      for (const PassGraph::Arc& arc : graph_.After(op)) ++missing_[arc.op];
      free_[pass.device] = free;
      end_[op] = -1;
      last_start_ = last_start;
    }
  }

  const PassGraph& graph_;
  std::vector<Nanos> free_, end_;
  std::vector<int> missing_;
  Nanos last_start_ = 0;
  Nanos best_ = Nanos{1} << 60;
};

TEST(TabuOrderTest, FindsTheOptimumOfSmallSchedules) {
  RandomStream stream(61, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 30; ++trial) {
    const std::string name = trial % 2 == 0 ? "zb-h1" : "cascaded-zb";
    const int m = trial % 2 == 0 ? 2 : 1;
    TabuOptions options;
    options.times.costs = RandomPassCosts(NamedSchedule(name, 2, m).num_stages(), stream);
    const Schedule schedule = NamedSchedule(name, 2, m, options.times.costs);
    const TabuResult result = TabuOrder(schedule, options);
    EXPECT_EQ(result.makespan_ns, Exhaustive(PassGraph(schedule, options.times)).Makespan())
        << trial << "\n"
        << result.schedule.ToString();
  }
}

TEST(TabuOrderTest, NeverLongerAtRandomCosts) {
  RandomStream stream(62, 0, 0, RandomPurpose::kTest);
  int better = 0;
  const std::vector<std::string> names = {"gpipe",   "1f1b",        "zb-h1",      "zb-v",
                                          "chimera", "cascaded-zb", "cascaded-v", "interleaved"};
  for (int trial = 0; trial < 80; ++trial) {
    const std::string& name = names[trial % names.size()];
    const int p = 2 * (1 + static_cast<int>(stream.NextBelow(2)));
    const int m = p * (1 + static_cast<int>(stream.NextBelow(2)));
    TabuOptions options;
    options.times.costs = RandomPassCosts(NamedSchedule(name, p, m).num_stages(), stream);
    options.max_moves = 200;
    const Schedule schedule = NamedSchedule(name, p, m, options.times.costs);
    const TabuResult result = TabuOrder(schedule, options);
    ASSERT_TRUE(result.schedule.Verify().ok()) << name << result.schedule.Verify();
    EXPECT_EQ(result.schedule.name(), name);
    const Nanos before = schedule.Makespan(options.times.costs);
    EXPECT_LE(result.schedule.Makespan(options.times.costs), result.makespan_ns) << name;
    EXPECT_LE(result.makespan_ns, before) << name;
    EXPECT_GE(result.makespan_ns, MakespanBound(schedule, options.times.costs)) << name;
    better += result.makespan_ns < before;
    // Deterministic.
    EXPECT_EQ(TabuOrder(schedule, options).schedule.ToString(), result.schedule.ToString());
  }
  EXPECT_GT(better, 20);
}

// Passes that take no time start together with other passes of their device, but still have an
// order.
TEST(TabuOrderTest, NeverLongerIfPassesTakeNoTime) {
  RandomStream stream(64, 0, 0, RandomPurpose::kTest);
  const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "zb-v", "cascaded-zb"};
  for (int trial = 0; trial < 100; ++trial) {
    const std::string& name = names[trial % names.size()];
    const Schedule schedule = NamedSchedule(name, 4, 4);
    TabuOptions options;
    options.times.costs = RandomPassCosts(schedule.num_stages(), stream, /*some_free=*/true);
    options.max_moves = 100;
    const TabuResult result = TabuOrder(schedule, options);
    ASSERT_TRUE(result.schedule.Verify().ok()) << name << result.schedule.Verify();
    EXPECT_LE(result.schedule.Makespan(options.times.costs), result.makespan_ns) << name;
    EXPECT_LE(result.makespan_ns, schedule.Makespan(options.times.costs)) << name;
  }
}

TEST(TabuOrderTest, RespectsStageLimits) {
  RandomStream stream(63, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 20; ++trial) {
    const Schedule schedule = NamedSchedule(trial % 2 == 0 ? "gpipe" : "zb-v", 4, 8);
    TabuOptions options;
    options.times.costs = RandomPassCosts(schedule.num_stages(), stream);
    for (int s = 0; s < schedule.num_stages(); ++s) {
      options.times.stage_limits.push_back(1 + static_cast<int>(stream.NextBelow(4)));
    }
    const TabuResult result = TabuOrder(schedule, options);
    for (int s = 0; s < schedule.num_stages(); ++s) {
      EXPECT_LE(result.schedule.PeakStashed(s), options.times.stage_limits[s]) << s;
    }
  }
}

TEST(TabuOrderTest, StopsWhenShortEnough) {
  const Schedule schedule = NamedSchedule("gpipe", 4, 8);
  TabuOptions options;
  options.times.costs.assign(4, {1, 1, 1});
  options.target_makespan_ns = schedule.Makespan(options.times.costs);
  EXPECT_EQ(TabuOrder(schedule, options).schedule.ToString(), schedule.ToString());
}

}  // namespace
}  // namespace dpipe
