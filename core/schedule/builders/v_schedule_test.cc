#include "core/schedule/builders/v_schedule.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/builders/v_block_squeeze.h"
#include "core/schedule/builders/weight_filling.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

const PassCosts kUnit = {1, 1, 1};

TEST(VScheduleTest, BlockOrdersCanRun) {
  for (VBlock block : {VBlock::kZeroBubble, VBlock::kHalf, VBlock::kMin}) {
    for (int p = 1; p <= 16; ++p) {
      const auto order = VBlockOrder(block, p, 12, Pass::kBackward);
      const auto schedule = Schedule::Create("test", {VChain(p, 12)}, order);
      EXPECT_TRUE(schedule.ok()) << p << " " << schedule.status();
    }
  }
}

// Returns, by device, the slots in the order of the repeated block.
std::vector<std::vector<Slot>> RepeatedOrder(const VBlockTimes& block, int num_micro_batches) {
  const int p = static_cast<int>(block.offsets.size());
  std::vector<std::vector<Slot>> order;
  for (int i = 0; i < p; ++i) {
    std::map<int, Slot> at;
    for (int m = 0; m < num_micro_batches; ++m) {
      const auto& offsets = block.offsets[i];
      const int back = 2 * p - 1 - i, later = block.period * m;
      at[offsets[0] + later] = {Pass::kForward, m, i};
      at[offsets[1] + later] = {Pass::kForward, m, back};
      at[offsets[2] + later] = {Pass::kInputGrad, m, back};
      at[offsets[3] + later] = {Pass::kInputGrad, m, i};
    }
    order.emplace_back();
    for (const auto& [slot, pass] : at) order.back().push_back(pass);
  }
  return order;
}

// For any block, squeezing keeps its passes, and the order can run.
TEST(VScheduleTest, SqueezedOrdersCanRun) {
  RandomStream stream(9, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 200; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(8));
    const int m = 1 + static_cast<int>(stream.NextBelow(3 * p));
    // Each of the three lags is a multiple of 6 plus its rank, so passes collide on no device.
    VBlockTimes block;
    const int lags[] = {static_cast<int>(stream.NextBelow(2)),
                        static_cast<int>(stream.NextBelow(2)),
                        static_cast<int>(stream.NextBelow(2))};
    for (int i = 0; i < p; ++i) {
      const int turn = 6 * p - 5 - 2 * i + 6 * lags[0];
      const int back = 6 * p - 4 + 4 * i + 6 * (lags[0] + lags[1]);
      const int last = 12 * p - 9 - 2 * i + 6 * (lags[0] + lags[1] + lags[2]);
      block.offsets.push_back({4 * i, turn, back, last});
    }
    const auto order = SqueezeVBlock(block, m);
    const auto schedule = FillWeightGradients("test", {VChain(p, m)}, order, {});
    ASSERT_TRUE(schedule.ok()) << p << " " << m << " " << schedule.status();
    EXPECT_GE(schedule->Makespan(kUnit), 6 * m + p - 1);
    const auto raw = FillWeightGradients("test", {VChain(p, m)}, RepeatedOrder(block, m), {});
    EXPECT_LE(schedule->Makespan(kUnit), raw->Makespan(kUnit)) << p << " " << m;
  }
}

TEST(VScheduleTest, AllBlocksAreZeroBubbleUpToTwoDevices) {
  for (const char* name : {"v-half", "v-min"}) {
    for (int p = 1; p <= 2; ++p) {
      for (int m = p; m <= 8; ++m) {
        EXPECT_EQ(NamedSchedule(name, RequestOf(p, m)).Makespan(kUnit), 6 * m + p - 1)
            << name << p << m;
      }
    }
  }
}

// The only idle time is the p-1 slots until the last device can begin, so the makespan is minimal.
TEST(VScheduleTest, ZeroBubbleHasNoBubbleFromPMicroBatches) {
  for (int p = 1; p <= 10; ++p) {
    for (int m = 1; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("zb-v", RequestOf(p, m));
      const Nanos idle = schedule.Makespan(kUnit) - (6 * m + p - 1);
      EXPECT_EQ(idle == 0, m >= p) << p << " " << m << " " << idle;
      EXPECT_EQ(MaxPeakStashed(schedule), std::min(2 * m, 2 * p)) << p << " " << m;
    }
  }
}

TEST(VScheduleTest, HalfKeepsHalfThePairs) {
  for (int p = 3; p <= 10; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("v-half", RequestOf(p, m));
      if (m >= 2 * p) {
        EXPECT_EQ(schedule.Makespan(kUnit), 6 * m + 3 * p - (p % 2 == 0 ? 7 : 5)) << p << " " << m;
      }
      EXPECT_EQ(MaxPeakStashed(schedule), p + 2) << p << " " << m;
    }
  }
}

TEST(VScheduleTest, MinKeepsAThirdOfThePairs) {
  for (int p = 3; p <= 10; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("v-min", RequestOf(p, m));
      if (m >= 2 * p) {
        EXPECT_EQ(schedule.Makespan(kUnit), 6 * m + 4 * p - (p % 3 == 0 ? 7 : 5)) << p << " " << m;
      }
      EXPECT_EQ(MaxPeakStashed(schedule), 2 * ((p + 4) / 3)) << p << " " << m;
    }
  }
}

// testdata/README.md has the source of the overheads.
TEST(VScheduleTest, HalfAndMinTakeNoLongerThanPublishedCode) {
  const auto text = ReadFile("core/schedule/builders/testdata/v_published_overheads.txt");
  ASSERT_TRUE(text.ok()) << text.status();
  std::istringstream lines(*text);
  int num_compared = 0, num_shorter = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int p = 0, overhead = 0;
    ASSERT_TRUE(words >> name >> p) << line;
    for (int m = p; words >> overhead; ++m, ++num_compared) {
      const Nanos makespan = NamedSchedule(name, RequestOf(p, m)).Makespan(kUnit);
      EXPECT_LE(makespan, 6 * m + overhead) << name << " " << p << " " << m;
      // For odd p, half takes one slot less than published and keeps one pair more.
      if (makespan == 6 * m + overhead) continue;
      ++num_shorter;
      EXPECT_TRUE((name == "v-half" && p % 2 == 1) || m < 2 * p) << name << " " << p << " " << m;
    }
  }
  EXPECT_EQ(num_compared, 2 * 413);  // p in 3..16, m in p..4p
  EXPECT_LT(num_shorter, num_compared / 3);
}

TEST(VScheduleTest, HonoursEveryLimitFromOneMicroBatch) {
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    for (int p = 1; p <= 6; ++p) {
      for (int limit = 2; limit <= 2 * p; ++limit) {
        EXPECT_LE(MaxPeakStashed(NamedSchedule(name, RequestOf(p, 9, limit))), limit) << name << p;
      }
    }
    EXPECT_EQ(MakeSchedule(name, RequestOf(2, 3, 1)).status().message(),
              std::string("schedule ") + name +
                  ": a micro-batch makes 2 pairs on a device, more than the limit of 1");
  }
}

// Random costs of every stage. The two stages of a device in a V together make one stage of 1f1b.
std::vector<PassCosts> RandomCosts(RandomStream* stream, int num_stages, bool alike) {
  const auto draw = [&] { return static_cast<Nanos>(1 + stream->NextBelow(100)); };
  std::vector<PassCosts> costs;
  for (int s = 0; s < num_stages; ++s) {
    costs.push_back(alike && s > 0 ? costs[0] : PassCosts{draw(), draw(), draw()});
  }
  return costs;
}

TEST(VScheduleTest, ZeroBubbleIsNoSlowerThanOneFOneBAtRandomCosts) {
  RandomStream stream(5, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 300; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(8));
    const int m = 2 * p + static_cast<int>(stream.NextBelow(2 * p));
    ScheduleRequest request = RequestOf(p, m);
    request.costs = RandomCosts(&stream, 2 * p, trial % 2 == 0);
    std::vector<PassCosts> joint;
    for (int d = 0; d < p; ++d) {
      const PassCosts &a = request.costs[d], &b = request.costs[2 * p - 1 - d];
      joint.push_back(
          {a.forward + b.forward, a.input_grad + b.input_grad, a.weight_grad + b.weight_grad});
    }
    const Schedule schedule = NamedSchedule("zb-v", request);
    EXPECT_LE(schedule.BubbleRatio(request.costs),
              NamedSchedule("1f1b", RequestOf(p, m)).BubbleRatio(joint) + 1e-12)
        << p << " " << m;
    EXPECT_GE(schedule.Makespan(request.costs), MakespanBound(schedule, request.costs));
  }
}

TEST(VScheduleTest, AutoIsNoSlowerThanItsCandidates) {
  RandomStream stream(11, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 100; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(6));
    ScheduleRequest request = RequestOf(p, 1 + static_cast<int>(stream.NextBelow(4 * p)));
    if (trial % 2 == 0) request.peak_limit = 2 + static_cast<int>(stream.NextBelow(4 * p));
    request.costs = RandomCosts(&stream, 2 * p, trial % 3 == 0);
    const Schedule best = NamedSchedule("v-auto", request);
    for (const char* name : {"zb-v", "dualpipe-v"}) {
      const auto other = MakeSchedule(name, request);
      if (!other.ok()) continue;
      EXPECT_LE(best.Makespan(request.costs), other->Makespan(request.costs)) << name << p;
    }
  }
}

TEST(VScheduleTest, RejectsWrongNumberOfCosts) {
  ScheduleRequest request = RequestOf(2, 2);
  request.costs.assign(2, kUnit);
  EXPECT_EQ(MakeSchedule("zb-v", request).status().message(),
            "schedule zb-v: costs of 2 stages; it has 4");
}

}  // namespace
}  // namespace dpipe
