#include "core/planner/cuts/balance_cut.h"

#include <algorithm>
#include <numeric>

#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using Stages = std::vector<std::vector<LayerRange>>;

Schedule Make(const std::string& name, int devices, int micro_batches) {
  auto schedule = MakeSchedule(name, {devices, micro_batches});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

// Layer passes of `ns` forward and 0 backward.
CutBalance Forwards(const Schedule& schedule, const std::vector<std::vector<Nanos>>& ns) {
  CutBalance balance;
  balance.schedule = &schedule;
  balance.costs = [&ns](int b, LayerRange layers, int) {
    PassCosts costs{0, 0, 0};
    costs.forward =
        std::accumulate(ns[b].begin() + layers.begin, ns[b].begin() + layers.end, Nanos{0});
    return costs;
  };
  return balance;
}

TEST(BalanceCutTest, EvensOutTwoStages) {
  const Schedule schedule = Make("1f1b", 2, 3);
  const std::vector<std::vector<Nanos>> ns = {{1, 1, 1, 1, 1, 5}};
  EXPECT_EQ(BalanceCut(Forwards(schedule, ns), {{{0, 1}, {1, 6}}}), (Stages{{{0, 5}, {5, 6}}}));
}

// Backbone 1, in the other direction, balances what backbone 0 cannot divide.
TEST(BalanceCutTest, OneBackboneMakesUpForTheOther) {
  const Schedule schedule = Make("cascaded", 2, 2);
  const std::vector<std::vector<Nanos>> ns = {{7, 3}, {1, 1, 1, 1, 1, 1}};
  // Device 0: stage 0 of backbone 0 and stage 1 of backbone 1.
  EXPECT_EQ(BalanceCut(Forwards(schedule, ns), {{{0, 1}, {1, 2}}, {{0, 3}, {3, 6}}}),
            (Stages{{{0, 1}, {1, 2}}, {{0, 5}, {5, 6}}}));
}

TEST(BalanceCutTest, MemoryGoesFirst) {
  const Schedule schedule = Make("1f1b", 2, 3);
  const std::vector<std::vector<Nanos>> ns = {{1, 1, 1, 1, 1, 1}};
  CutBalance balance = Forwards(schedule, ns);
  balance.excess = [](int device, const Stages& stages) {
    return device == 0 ? std::max(0, stages[0][0].size() - 2) : 0;
  };
  EXPECT_EQ(BalanceCut(balance, {{{0, 4}, {4, 6}}}), (Stages{{{0, 2}, {2, 6}}}));
}

TEST(BalanceCutTest, NeverWorseAtRandomAndStagesStaySound) {
  RandomStream stream(41, 0, 0, RandomPurpose::kTest);
  int better = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule schedule = Make(trial % 2 == 0 ? "zb-v" : "cascaded-zb", 4, 4);
    const int num_backbones = trial % 2 == 0 ? 1 : 2, num_stages = trial % 2 == 0 ? 8 : 4;
    std::vector<std::vector<Nanos>> ns(num_backbones);
    Stages stages(num_backbones);
    for (int b = 0; b < num_backbones; ++b) {
      for (int l = 0; l < 24; ++l) ns[b].push_back(1 + stream.NextBelow(40));
      for (int k = 0; k < num_stages; ++k) {
        stages[b].push_back({24 * k / num_stages, 24 * (k + 1) / num_stages});
      }
    }
    CutBalance balance = Forwards(schedule, ns);
    balance.by_makespan = trial % 3 == 0;
    const auto makespan = [&](const Stages& cut) {
      std::vector<PassCosts> costs;
      for (int s = 0; s < schedule.num_stages(); ++s) {
        const ScheduleChain& chain = schedule.chains()[schedule.ChainOf(s)];
        const int k = s - schedule.FirstStageOf(schedule.ChainOf(s));
        costs.push_back(balance.costs(chain.backbone, cut[chain.backbone][k], 0));
      }
      return schedule.Makespan(costs);
    };
    const Stages balanced = BalanceCut(balance, stages);
    for (int b = 0; b < num_backbones; ++b) {
      ASSERT_EQ(balanced[b].size(), stages[b].size());
      int begin = 0;
      for (const LayerRange& layers : balanced[b]) {
        EXPECT_EQ(layers.begin, begin);
        EXPECT_GE(layers.size(), 1);
        begin = layers.end;
      }
      EXPECT_EQ(begin, 24);
    }
    if (!balance.by_makespan) continue;
    EXPECT_LE(makespan(balanced), makespan(stages));
    better += makespan(balanced) < makespan(stages);
  }
  EXPECT_GT(better, 10);
}

}  // namespace
}  // namespace dpipe
