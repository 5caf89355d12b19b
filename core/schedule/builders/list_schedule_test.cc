#include "core/schedule/builders/list_schedule.h"

#include <algorithm>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

ListPriority ForwardsFirst(const ListCandidate& candidate) {
  return {candidate.slot.pass != Pass::kForward, -candidate.remaining_ns, 0};
}

ScheduleChain Chain(std::vector<int> devices, int num_micro_batches, int num_forward_only = 0) {
  ScheduleChain chain;
  chain.devices = std::move(devices);
  chain.num_micro_batches = num_micro_batches;
  chain.num_forward_only = num_forward_only;
  return chain;
}

TEST(ListScheduleTest, TwoStagesByHand) {
  // F = I = W = 1, gradients first. Stage 0: F0 0-1, F1 1-2, then I0 (ready at 3; nothing else to
  // do before) 3-4, W0 4-5 (I1 comes back at 5), I1 5-6, W1 6-7.
  // Stage 1: F0 1-2, I0 2-3, F1 3-4 (a forward before a weight gradient), I1 4-5, W0, W1.
  const auto schedule = ListSchedule("list", {Chain({0, 1}, 2)}, {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->ToString(), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
  EXPECT_EQ(schedule->Makespan({1, 1, 1}), 7);

  ListScheduleOptions joint;
  joint.split_backward = false;
  EXPECT_EQ(ListSchedule("list", {Chain({0, 1}, 2)}, joint)->ToString(),
            "F0 F1 B0 B1\nF0 B0 F1 B1\n");
  joint.policy = ForwardsFirst;
  joint.stage_limits = {1, 0};
  EXPECT_EQ(ListSchedule("list", {Chain({0, 1}, 2)}, joint)->ToString(),
            "F0 B0 F1 B1\nF0 B0 F1 B1\n");
}

TEST(ListScheduleTest, ForwardOnlyStagesKeepNothing) {
  ListScheduleOptions options;
  options.split_backward = false;
  options.device_limits = {1};
  options.policy = OldestFirst;
  const auto schedule = ListSchedule("list", {Chain({0, 0}, 2, 1)}, options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->ToString(), "F0.0 F1.0 B1.0 F0.1 F1.1 B1.1\n");
}

TEST(ListScheduleTest, WaitsWhereAWeightGradientWouldDelay) {
  // Stage 1: F0 1-2, I0 2-4, F1 4-5, I1 5-7. Stage 0: F0, F1, then I0 4-5; W0 from 5 to 9 delays
  // I1, which is ready at 7.
  ListScheduleOptions options;
  options.costs = {{1, 1, 4}, {1, 2, 1}};
  const auto greedy = *ListSchedule("list", {Chain({0, 1}, 2)}, options);
  options.weight_patience = 1;
  const auto patient = *ListSchedule("list", {Chain({0, 1}, 2)}, options);
  EXPECT_EQ(greedy.ToString(), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
  EXPECT_EQ(patient.ToString(), "F0 F1 I0 I1 W0 W1\nF0 I0 F1 I1 W0 W1\n");
}

TEST(ListScheduleTest, RefusesWhatCannotBe) {
  ListScheduleOptions options;
  options.device_limits = {1, 0};
  EXPECT_EQ(
      ListSchedule("x", {Chain({0, 1, 1, 0}, 2)}, options).status().message(),
      "list schedule x: device 0 may keep 1 (stage, micro-batch) pairs, but one micro-batch of "
      "chain 0 makes 2 there");
  options.device_limits = {1};
  EXPECT_EQ(ListSchedule("x", {Chain({0, 1}, 2)}, options).status().message(),
            "list schedule x: 1 device limits; there must be 2");
  EXPECT_EQ(ListSchedule("x", {}, {}).status().message(), "list schedule x: there are no stages");
  options = {};
  options.costs = {{1, -1, 1}, {}};
  EXPECT_EQ(ListSchedule("x", {Chain({0, 1}, 2)}, options).status().message(),
            "list schedule x: stage 0 has a negative cost");
  EXPECT_FALSE(ListSchedule("x", {Chain({0, 1}, 2, 2)}, {}).ok());
  EXPECT_FALSE(ListSchedule("x", {Chain({0, 1}, 0)}, {}).ok());
}

// Random chains on random devices, costs and limits: it always comes to its end (Create verifies
// that) and keeps the limits.
TEST(ListScheduleTest, NeverGetsStuckAndKeepsLimits) {
  const std::vector<ListPolicy> policies = {GradientsFirst, ForwardsFirst, LongestPathFirst,
                                            OldestFirst};
  for (int seed = 0; seed < 1500; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    const int num_devices = 1 + stream.NextBelow(5);
    std::vector<ScheduleChain> chains(1 + stream.NextBelow(3));
    ListScheduleOptions options;
    options.split_backward = stream.NextBelow(3) > 0;
    options.policy = policies[stream.NextBelow(4)];
    options.weight_patience = stream.NextBelow(2);
    options.device_limits.assign(num_devices, 1);
    for (ScheduleChain& chain : chains) {
      chain.num_micro_batches = 1 + stream.NextBelow(7);
      const int num_stages = 1 + stream.NextBelow(8);
      std::vector<int> count(num_devices);
      for (int k = 0; k < num_stages; ++k) {
        chain.devices.push_back(stream.NextBelow(num_devices));
        ++count[chain.devices.back()];
        options.costs.push_back({stream.NextBelow(5), stream.NextBelow(5), stream.NextBelow(5)});
        options.stage_limits.push_back(stream.NextBelow(4));
      }
      chain.num_forward_only = stream.NextBelow(2) ? stream.NextBelow(num_stages) : 0;
      for (int d = 0; d < num_devices; ++d) {
        options.device_limits[d] = std::max(options.device_limits[d], count[d]);
      }
    }
    chains.back().devices.push_back(num_devices - 1);  // so that the last device is one
    options.costs.push_back({1, 1, 1});
    options.stage_limits.push_back(0);
    ++options.device_limits.back();
    for (int& limit : options.device_limits) limit += stream.NextBelow(3);
    const auto schedule = ListSchedule("random", chains, options);
    ASSERT_TRUE(schedule.ok()) << "seed " << seed << ": " << schedule.status();
    for (int d = 0; d < num_devices; ++d) {
      EXPECT_LE(schedule->PeakStashedOnDevice(d), options.device_limits[d]) << "seed " << seed;
    }
    for (int s = 0; s < schedule->num_stages(); ++s) {
      if (options.stage_limits[s] == 0) continue;
      EXPECT_LE(schedule->PeakStashed(s), options.stage_limits[s]) << "seed " << seed;
    }
  }
}

TEST(ListScheduleTest, SixtyFourDevices) {
  std::vector<int> devices;
  for (int d = 0; d < 64; ++d) devices.push_back(d);
  ListScheduleOptions options;
  options.device_limits.assign(64, 64);
  const auto schedule = ListSchedule("large", {Chain(devices, 256)}, options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_GE(schedule->Makespan({1, 1, 1}), 256 * 3 + 63);
  EXPECT_LE(schedule->Makespan({1, 1, 1}), 256 * 3 + 2 * 64);
  EXPECT_LE(schedule->PeakStashed(0), 64);
}

}  // namespace
}  // namespace dpipe
