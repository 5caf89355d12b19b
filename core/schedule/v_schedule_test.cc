#include "core/schedule/v_schedule.h"

#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/named_schedule.h"
#include "core/schedule/schedule_choice.h"
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

TEST(VScheduleTest, UpToTwoDevicesAllBlocksAreZeroBubble) {
  for (const char* name : {"v-half", "v-min"}) {
    for (int p = 1; p <= 2; ++p) {
      for (int m = p; m <= 8; ++m) {
        EXPECT_EQ(NamedSchedule(name, RequestOf(p, m)).Makespan(kUnit), 6 * m + p - 1)
            << name << p << m;
      }
    }
  }
}

// Idle is only the p-1 slots until the last device can begin: the makespan is the least possible.
TEST(VScheduleTest, ZeroBubbleHasNoneFromPMicroBatchesOn) {
  for (int p = 1; p <= 10; ++p) {
    for (int m = 1; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("zb-v", RequestOf(p, m));
      const Nanos idle = schedule.Makespan(kUnit) - (6 * m + p - 1);
      EXPECT_EQ(idle == 0, m >= p) << p << " " << m << " " << idle;
      EXPECT_EQ(PeakStashedOfAll(schedule), std::min(2 * m, 2 * p)) << p << " " << m;
    }
  }
}

TEST(VScheduleTest, HalfKeepsHalf) {
  for (int p = 3; p <= 10; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("v-half", RequestOf(p, m));
      EXPECT_LE(schedule.Makespan(kUnit), 6 * m + 3 * p - (p % 2 == 0 ? 3 : 5)) << p << " " << m;
      if (m >= 2 * p) {
        EXPECT_EQ(schedule.Makespan(kUnit), 6 * m + 3 * p - (p % 2 == 0 ? 3 : 5)) << p << " " << m;
      }
      EXPECT_EQ(PeakStashedOfAll(schedule), p + 2) << p << " " << m;
    }
  }
}

TEST(VScheduleTest, MinKeepsAThird) {
  for (int p = 3; p <= 10; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Schedule schedule = NamedSchedule("v-min", RequestOf(p, m));
      EXPECT_LE(schedule.Makespan(kUnit), 6 * m + 4 * p - (p % 3 == 0 ? 3 : 5)) << p << " " << m;
      if (m >= 2 * p) {
        EXPECT_EQ(schedule.Makespan(kUnit), 6 * m + 4 * p - (p % 3 == 0 ? 3 : 5)) << p << " " << m;
      }
      EXPECT_EQ(PeakStashedOfAll(schedule), 2 * ((p + 4) / 3)) << p << " " << m;
    }
  }
}

TEST(VScheduleTest, EveryLimitFromOneMicroBatchOnIsHonoured) {
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    for (int p = 1; p <= 6; ++p) {
      for (int limit = 2; limit <= 2 * p; ++limit) {
        EXPECT_LE(PeakStashedOfAll(NamedSchedule(name, RequestOf(p, 9, limit))), limit)
            << name << p;
      }
    }
    EXPECT_EQ(MakeSchedule(name, RequestOf(2, 3, 1)).status().message(),
              std::string("schedule ") + name +
                  ": a micro-batch makes 2 pairs on a device, more than the limit of 1");
  }
}

// The costs of every stage; the V's two stages of a device together are the stage of 1f1b.
std::vector<PassCosts> RandomCosts(RandomStream* stream, int num_stages, bool alike) {
  const auto draw = [&] { return static_cast<Nanos>(1 + stream->NextBelow(100)); };
  std::vector<PassCosts> costs;
  for (int s = 0; s < num_stages; ++s) {
    costs.push_back(alike && s > 0 ? costs[0] : PassCosts{draw(), draw(), draw()});
  }
  return costs;
}

TEST(VScheduleTest, AtRandomCostsZeroBubbleIsNoSlowerThanOneFOneB) {
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

TEST(VScheduleTest, AutoIsNoSlowerThanWhatItChoosesFrom) {
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

TEST(VScheduleTest, RefusesCostsOfOtherStages) {
  ScheduleRequest request = RequestOf(2, 2);
  request.costs.assign(2, kUnit);
  EXPECT_EQ(MakeSchedule("zb-v", request).status().message(),
            "schedule zb-v: costs of 2 stages; it has 4");
}

}  // namespace
}  // namespace dpipe
