#include "core/schedule/generators.h"

#include <algorithm>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Schedule Make(const std::string& name, int num_stages, int num_micro_batches) {
  auto schedule = MakeSchedule(name, {num_stages, num_micro_batches});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(GeneratorsTest, BubbleOfGPipeAndOneFOneBIsTheClosedForm) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int p = 1; p <= 12; ++p) {
      for (int m = 1; m <= 20; ++m) {
        const Schedule schedule = Make(name, p, m);
        // F = B = 1, and F = 1, B = 2: the formula is the same.
        for (const PassCosts& costs : {PassCosts{1, 1, 0}, PassCosts{1, 1, 1}}) {
          EXPECT_EQ(schedule.Makespan(costs),
                    (m + p - 1) * (costs.forward + costs.input_grad + costs.weight_grad));
          EXPECT_NEAR(schedule.BubbleRatio(costs), (p - 1.0) / (m + p - 1), 1e-12);
        }
      }
    }
  }
}

TEST(GeneratorsTest, PeakOfGPipeIsEveryMicroBatch) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 10; ++m) {
      for (int s = 0; s < p; ++s) EXPECT_EQ(Make("gpipe", p, m).PeakStashed(s), m);
    }
  }
}

TEST(GeneratorsTest, PeakOfOneFOneBIsTheStagesLeft) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 12; ++m) {
      for (int s = 0; s < p; ++s) {
        EXPECT_EQ(Make("1f1b", p, m).PeakStashed(s), std::min(m, p - s));
      }
    }
  }
}

TEST(GeneratorsTest, EagerHasOneFOneBsBubbleAndUpToTwiceItsPeak) {
  for (int p = 1; p <= 10; ++p) {
    for (int m = 1; m <= 24; ++m) {
      const Schedule schedule = Make("eager-1f1b", p, m);
      for (const PassCosts& costs : {PassCosts{1, 1, 0}, PassCosts{1, 1, 1}, PassCosts{3, 1, 0}}) {
        EXPECT_EQ(schedule.Makespan(costs),
                  (m + p - 1) * (costs.forward + costs.input_grad + costs.weight_grad));
      }
      for (int s = 0; s < p; ++s) {
        EXPECT_EQ(schedule.PeakStashed(s), std::min(m, 2 * (p - s) - 1));
      }
    }
  }
}

TEST(GeneratorsTest, SingleAlternates) {
  EXPECT_EQ(Make("single", 1, 3).ToString(), "F0 B0 F1 B1 F2 B2\n");
  EXPECT_EQ(MakeSchedule("single", {2, 3}).status().message(),
            "schedule single: 2 devices; it has 1 stage");
}

// Whatever the times, a schedule is one, and takes no less than a device's work, nor than the way
// of a micro-batch through its chain and back.
TEST(GeneratorsTest, RandomCostsKeepVerifyAndBounds) {
  int num_tried = 0;
  for (int seed = 0; seed < 600; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    const std::vector<std::string> names = ScheduleNames();
    const std::string name = names[seed % names.size()];
    ScheduleRequest request;
    request.num_devices = 1 + stream.NextBelow(6);
    request.num_micro_batches = request.num_devices * (1 + stream.NextBelow(4));
    const auto stages = MakeSchedule(name, request);
    if (!stages.ok()) continue;
    for (int s = 0; s < stages->num_stages(); ++s) {
      request.costs.push_back(
          {1 + stream.NextBelow(20), 1 + stream.NextBelow(20), stream.NextBelow(20)});
    }
    const auto schedule = MakeSchedule(name, request);
    ASSERT_TRUE(schedule.ok()) << name << ", seed " << seed << ": " << schedule.status();
    EXPECT_EQ(schedule->chains(), stages->chains()) << name << ", seed " << seed;
    EXPECT_TRUE(schedule->Verify().ok());
    const Nanos makespan = schedule->Makespan(request.costs);
    std::vector<Nanos> work(request.num_devices), path(schedule->chains().size());
    for (int s = 0; s < schedule->num_stages(); ++s) {
      const int chain = schedule->ChainOf(s);
      const PassCosts& c = request.costs[s];
      path[chain] += c.forward + c.input_grad;
      work[schedule->DeviceOf(s)] +=
          schedule->chains()[chain].num_micro_batches * (c.forward + c.input_grad + c.weight_grad);
    }
    EXPECT_GE(makespan, *std::max_element(work.begin(), work.end())) << name << ", seed " << seed;
    EXPECT_GE(makespan, *std::max_element(path.begin(), path.end())) << name << ", seed " << seed;
    ++num_tried;
  }
  EXPECT_GT(num_tried, 300);
}

TEST(GeneratorsTest, NamesAreListedAndUnknownOnesRefused) {
  const std::vector<std::string> names = ScheduleNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name :
       {"1f1b", "eager-1f1b", "gpipe", "interleaved", "single", "zb-auto", "zb-h1", "zb-h2"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  const std::string message(MakeSchedule("zb", {1, 1}).status().message());
  EXPECT_EQ(message.find("schedule 'zb' is not one of 1f1b, "), 0u) << message;
  EXPECT_FALSE(MakeSchedule("gpipe", {0, 1}).ok());
  EXPECT_FALSE(MakeSchedule("1f1b", {2, 0}).ok());
}

}  // namespace
}  // namespace dpipe
