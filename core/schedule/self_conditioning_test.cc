#include "core/schedule/self_conditioning.h"

#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// What the schedule is without its forward-only passes, as the given one prints itself.
std::vector<std::vector<Slot>> SecondLap(const Schedule& both) {
  std::vector<std::vector<Slot>> slots(both.num_devices());
  for (int d = 0; d < both.num_devices(); ++d) {
    for (Slot slot : both.slots(d)) {
      if (both.IsForwardOnly(slot.stage)) continue;
      int forward_only = 0;  // stages before it
      for (int s = 0; s < slot.stage; ++s) forward_only += both.IsForwardOnly(s);
      slot.stage -= forward_only;
      slots[d].push_back(slot);
    }
  }
  return slots;
}

TEST(SelfConditioningTest, TwoStagesByHand) {
  // First laps: stage 0 then 1; second laps: stages 2 and 3. F = 1, joint backward 2.
  // Device 0: F0.0 0-1, F0.1 1-2, then the second lap of micro-batch 0, whose first one ended at 2.
  const auto schedule = WithSelfConditioning(*MakeSchedule("1f1b", {2, 2}), {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->ToString(),
            "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1\n"
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1\n");
  EXPECT_EQ(schedule->Makespan({1, 1, 1}), 2 + 9);
  EXPECT_EQ(schedule->chains()[0].num_forward_only, 2);
}

TEST(SelfConditioningTest, AddsAtMostTheFirstLapsWork) {
  for (const char* name : {"1f1b", "gpipe", "eager-1f1b", "zb-h1", "zb-h2", "interleaved"}) {
    for (int p = 1; p <= 5; ++p) {
      for (int rounds = 1; rounds <= 3; ++rounds) {
        ScheduleRequest request{p, p * rounds};
        const Schedule base = *MakeSchedule(name, request);
        request.self_conditioning = true;
        const auto both = MakeSchedule(name, request);
        ASSERT_TRUE(both.ok()) << both.status();
        const int lap = p * rounds * base.num_stages() / p;
        EXPECT_LE(both->Makespan({1, 1, 1}), base.Makespan({1, 1, 1}) + lap) << name << " " << p;
        for (int d = 0; d < p; ++d) {
          EXPECT_EQ(both->PeakStashedOnDevice(d), base.PeakStashedOnDevice(d));
          EXPECT_EQ(SecondLap(*both)[d], base.slots(d)) << name;
        }
      }
    }
  }
}

TEST(SelfConditioningTest, EveryGeneratorAtRandomCosts) {
  for (int seed = 0; seed < 300; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    const std::vector<std::string> names = ScheduleNames();
    const std::string name = names[stream.NextBelow(names.size())];
    ScheduleRequest request;
    request.num_devices = 1 + stream.NextBelow(6);
    request.num_micro_batches = request.num_devices * (1 + stream.NextBelow(3));
    const auto base = MakeSchedule(name, request);
    if (!base.ok()) continue;
    request.self_conditioning = true;
    std::vector<Nanos> work(request.num_devices);
    for (int lap = 0; lap < 2 * base->num_stages(); ++lap) {
      request.costs.push_back(
          {1 + stream.NextBelow(9), 1 + stream.NextBelow(9), stream.NextBelow(9)});
    }
    const auto both = MakeSchedule(name, request);
    ASSERT_TRUE(both.ok()) << name << ", seed " << seed << ": " << both.status();
    EXPECT_EQ(both->num_stages(), 2 * base->num_stages());
    for (int s = 0; s < both->num_stages(); ++s) {
      const int m = both->chains()[both->ChainOf(s)].num_micro_batches;
      const PassCosts& c = request.costs[s];
      work[both->DeviceOf(s)] +=
          m * (c.forward + (both->IsForwardOnly(s) ? 0 : c.input_grad + c.weight_grad));
    }
    EXPECT_GE(both->Makespan(request.costs), *std::max_element(work.begin(), work.end()));
  }
}

TEST(SelfConditioningTest, RejectsBadArguments) {
  const auto both = WithSelfConditioning(*MakeSchedule("1f1b", {2, 2}), {});
  EXPECT_EQ(WithSelfConditioning(*both, {}).status().message(),
            "schedule 1f1b has 2 forward-only stages already; self-conditioning adds them to one "
            "that has none");
  ScheduleRequest request{2, 2};
  request.self_conditioning = true;
  request.costs.resize(2);
  EXPECT_EQ(MakeSchedule("1f1b", request).status().message(),
            "schedule 1f1b with self-conditioning: costs of 2 stages; it has 4");
}

}  // namespace
}  // namespace dpipe
