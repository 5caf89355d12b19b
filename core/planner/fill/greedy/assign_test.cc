#include "core/planner/fill/greedy/assign.h"

#include <algorithm>
#include <vector>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

FrozenWork LinearWork(const std::vector<std::vector<Nanos>>& ns_per_unit, int num_units) {
  FrozenWork work;
  work.num_units = num_units;
  for (const std::vector<Nanos>& steps : ns_per_unit) {
    Chain chain;
    chain.total_ns.assign(num_units + 1, 0);
    for (int l = 0; l < steps.size(); ++l) {
      chain.steps.push_back({0, l, l == 0});
      std::vector<Nanos> ns;
      for (int u = 0; u <= num_units; ++u) ns.push_back(u * steps[l]);
      for (int u = 0; u <= num_units; ++u) chain.total_ns[u] += ns[u];
      chain.step_ns.push_back(ns);
    }
    work.chains.push_back(chain);
  }
  return work;
}

TEST(AssignTest, DeviceThatEndsEarlierTakesMore) {
  // Device 0 has no gap and ends at 30. Device 1 has a gap of 4 and ends at 20. With 3 and 7 of the
  // 10 units of 3, they end at 30 + 9 = 39 and at 20 + 21 - 3 = 38: one unit fits in the gap.
  const FrozenWork work = LinearWork({{3}}, 10);
  const Assignment assignment = AssignUnits(work, {{{}, 30, 30}, {{4}, 20, 30}}, {});
  EXPECT_EQ(assignment.units, (std::vector<std::vector<int>>{{3}, {7}}));
  EXPECT_EQ(assignment.finish_ns, (std::vector<Nanos>{39, 38}));
}

TEST(AssignTest, EvenSamplesIgnoreGaps) {
  AssignOptions options;
  options.even_samples = true;
  const FrozenWork work = LinearWork({{3}, {1}}, 5);
  const Assignment assignment = AssignUnits(work, {{{}, 30, 30}, {{4}, 20, 30}}, options);
  EXPECT_EQ(assignment.units, (std::vector<std::vector<int>>{{2, 2}, {3, 3}}));
}

TEST(AssignTest, RespectsMaxUnits) {
  std::vector<DeviceGaps> devices = {{{}, 30, 30}, {{4}, 20, 30}};
  devices[1].max_units = {4};
  const Assignment assignment = AssignUnits(LinearWork({{3}}, 10), devices, {});
  EXPECT_EQ(assignment.units, (std::vector<std::vector<int>>{{6}, {4}}));
}

TEST(AssignTest, FasterDeviceTakesMore) {
  // 12 units of 6; the second device is twice as fast: with 4 and 8, both end at 24.
  std::vector<DeviceGaps> devices(2);
  devices[1].speed = 2;
  const Assignment assignment = AssignUnits(LinearWork({{6}}, 12), devices, {});
  EXPECT_EQ(assignment.units, (std::vector<std::vector<int>>{{4}, {8}}));
  EXPECT_EQ(assignment.finish_ns, (std::vector<Nanos>{24, 24}));
}

TEST(AssignTest, SmallChainsBalanceLargeOnes) {
  // 3 units of 10 and 3 of 2 on two equal devices: the best is 2x10 = 20 against 10 + 3x2 = 16.
  const FrozenWork work = LinearWork({{10}, {2}}, 3);
  const Assignment assignment = AssignUnits(work, {{{}, 0, 0}, {{}, 0, 0}}, {});
  EXPECT_EQ(*std::max_element(assignment.finish_ns.begin(), assignment.finish_ns.end()), 20);
}

TEST(AssignTest, WorkInGapsDelaysNothing) {
  const FrozenWork work = LinearWork({{2, 2}}, 4);
  const Assignment assignment = AssignUnits(work, {{{1}, 50, 50}, {{8, 9}, 50, 50}}, {});
  EXPECT_EQ(assignment.finish_ns, (std::vector<Nanos>{50, 50}));
}

// Against brute force on tiny instances: more than 10% worse in at most 2% of them.
TEST(AssignTest, CloseToBruteForce) {
  RandomStream random(6, 0, 0, RandomPurpose::kTest);
  int far = 0;
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    const int num_units = 1 + random.NextBelow(4);
    std::vector<std::vector<Nanos>> steps(1 + random.NextBelow(2));
    for (auto& chain : steps) {
      chain.resize(1 + random.NextBelow(3));
      for (Nanos& ns : chain) ns = 1 + random.NextBelow(9);
    }
    const FrozenWork work = LinearWork(steps, num_units);
    std::vector<DeviceGaps> devices(2);
    for (DeviceGaps& device : devices) {
      device.gaps.resize(random.NextBelow(4));
      device.end_ns = 20;
      for (Nanos& gap : device.gaps) device.end_ns += gap = random.NextBelow(20);
    }
    Nanos best = Nanos{1} << 60;
    const int second = steps.size() > 1 ? num_units : 0;
    for (int a = 0; a <= num_units; ++a) {
      for (int b = 0; b <= second; ++b) {
        std::vector<int> here = {a}, there = {num_units - a};
        if (steps.size() > 1) here.push_back(b), there.push_back(num_units - b);
        best = std::min(
            best, std::max(devices[0].end_ns + Pack(work, here, devices[0].gaps, {}).leftover_ns,
                           devices[1].end_ns + Pack(work, there, devices[1].gaps, {}).leftover_ns));
      }
    }
    const Assignment got = AssignUnits(work, devices, {});
    const Nanos finish = *std::max_element(got.finish_ns.begin(), got.finish_ns.end());
    ASSERT_GE(finish, best);
    if (finish * 10 > best * 11) ++far;
  }
  EXPECT_LE(far, kRounds / 50);
}

}  // namespace
}  // namespace dpipe
