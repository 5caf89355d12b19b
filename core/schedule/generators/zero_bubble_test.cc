// zb-h1, zb-h2 and zb-auto. [algorithms.md §5]
#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Schedule Make(const std::string& name, int num_devices, int num_micro_batches) {
  auto schedule = MakeSchedule(name, {num_devices, num_micro_batches});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

// Returns a device's idle time: from its first start to its last end, minus its work.
Nanos IdleInSpan(const Schedule& schedule, int device, const PassCosts& costs) {
  const auto starts =
      schedule.StartTimes(std::vector<PassCosts>(schedule.num_stages(), costs))[device];
  Nanos work = 0;
  Nanos last = 0;
  for (const Slot& slot : schedule.slots(device)) {
    last = slot.pass == Pass::kForward     ? costs.forward
           : slot.pass == Pass::kInputGrad ? costs.input_grad
                                           : costs.weight_grad;
    if (slot.pass == Pass::kBackward) last += costs.input_grad;
    work += last;
  }
  return starts.back() + last - starts.front() - work;
}

Nanos LargestIdleInSpan(const Schedule& schedule, const PassCosts& costs) {
  Nanos largest = 0;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    largest = std::max(largest, IdleInSpan(schedule, d, costs));
  }
  return largest;
}

const std::vector<PassCosts> kCosts = {{1, 1, 1}, {3, 4, 2}, {2, 2, 1}, {2, 3, 2},
                                       {3, 2, 2}, {5, 5, 4}, {5, 5, 1}, {4, 9, 0}};  // W <= F, B

TEST(ZeroBubbleTest, H1ByHand) {
  EXPECT_EQ(Make("zb-h1", 3, 4).ToString(),
            "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
            "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
            "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n");
}

TEST(ZeroBubbleTest, H1IdleTimeMatchesClosedForm) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 3 * p + 2; ++m) {
      const Schedule schedule = Make("zb-h1", p, m);
      std::vector<PassCosts> all = kCosts;
      all.insert(all.end(), {{2, 1, 2}, {3, 2, 3}, {7, 1, 5}});  // only W <= F
      for (const PassCosts& c : all) {
        const Nanos idle =
            (p - 1) * (c.forward + c.input_grad) - std::min(m - 1, p - 1) * c.weight_grad;
        EXPECT_EQ(IdleInSpan(schedule, 0, c), idle) << p << " " << m;
        EXPECT_EQ(LargestIdleInSpan(schedule, c), idle) << p << " " << m;
        if (c.weight_grad <= c.input_grad) {
          EXPECT_EQ(schedule.Makespan(c) - m * (c.forward + c.input_grad + c.weight_grad), idle);
        }
        if (m >= p) {
          EXPECT_EQ(idle, (p - 1) * (c.forward + c.input_grad - c.weight_grad));
        }
      }
      for (int s = 0; s < p; ++s) EXPECT_EQ(schedule.PeakStashed(s), std::min(m, p));
    }
  }
}

TEST(ZeroBubbleTest, H2IdleTimeMatchesClosedForm) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 4 * p + 2; ++m) {
      const Schedule schedule = Make("zb-h2", p, m);
      for (const PassCosts& c : kCosts) {
        const Nanos idle =
            (p - 1) * (c.forward + c.input_grad) - std::min(m - 1, 2 * (p - 1)) * c.weight_grad;
        EXPECT_EQ(LargestIdleInSpan(schedule, c), idle) << p << " " << m;
        if (m >= 2 * p - 1) {
          EXPECT_EQ(idle, (p - 1) * (c.forward + c.input_grad - 2 * c.weight_grad));
        }
      }
      for (int s = 0; s < p; ++s) EXPECT_EQ(schedule.PeakStashed(s), std::min(m, 2 * p - 1));
    }
  }
}

// Cases in which W is longer than the wait that it fills: p = 3, m = 9, each with the value of the
// formula.
TEST(ZeroBubbleTest, ClosedFormsFailOutsideTheirDomains) {
  const Schedule h1 = Make("zb-h1", 3, 9), h2 = Make("zb-h2", 3, 9);
  EXPECT_EQ(LargestIdleInSpan(h1, {2, 1, 2}), 2);          // W <= F is enough for a device's span,
  EXPECT_GT(h1.Makespan({2, 1, 2}) - 9 * (2 + 1 + 2), 2);  // but not for the makespan
  EXPECT_EQ(LargestIdleInSpan(h1, {1, 2, 2}), 4);          // not 2 (1 + 2 - 2)
  EXPECT_EQ(LargestIdleInSpan(h2, {2, 1, 2}), 0);          // not 2 (2 + 1 - 4)
  EXPECT_EQ(LargestIdleInSpan(h2, {1, 2, 2}), 2);          // not 2 (1 + 2 - 4)
}

TEST(ZeroBubbleTest, AutoIsNeverWorseThanSchedulesThatFit) {
  for (int seed = 0; seed < 400; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    ScheduleRequest request;
    request.num_devices = 1 + stream.NextBelow(6);
    request.num_micro_batches = 1 + stream.NextBelow(14);
    request.peak_limit = stream.NextBelow(2 * request.num_devices + 2);
    Nanos longest = 0;
    for (int d = 0; d < request.num_devices; ++d) {
      request.costs.push_back(
          {1 + stream.NextBelow(9), 1 + stream.NextBelow(9), stream.NextBelow(9)});
      const PassCosts& c = request.costs.back();
      longest = std::max(longest, c.forward + c.input_grad + c.weight_grad);
    }
    const auto best = MakeSchedule("zb-auto", request);
    ASSERT_TRUE(best.ok()) << "seed " << seed << ": " << best.status();
    const Nanos makespan = best->Makespan(request.costs);
    EXPECT_GE(makespan, longest * request.num_micro_batches);
    const auto fits = [&](const Schedule& schedule) {
      for (int d = 0; d < request.num_devices; ++d) {
        if (request.peak_limit && schedule.PeakStashedOnDevice(d) > request.peak_limit)
          return false;
      }
      return true;
    };
    EXPECT_TRUE(fits(*best)) << "seed " << seed;
    for (const char* name : {"1f1b", "zb-h1", "zb-h2"}) {
      const Schedule other = Make(name, request.num_devices, request.num_micro_batches);
      if (!fits(other)) continue;
      EXPECT_LE(makespan, other.Makespan(request.costs)) << name << ", seed " << seed;
    }
  }
}

TEST(ZeroBubbleTest, AutoWorksAtAndBelowPeakOfOneFOneB) {
  for (int p = 1; p <= 6; ++p) {
    for (int m : {1, p, 3 * p}) {
      const Nanos one_f_one_b = Make("1f1b", p, m).Makespan({1, 1, 1});
      ScheduleRequest request{p, m};
      request.peak_limit = p;
      const auto at_peak = MakeSchedule("zb-auto", request);
      ASSERT_TRUE(at_peak.ok()) << at_peak.status();
      EXPECT_EQ(at_peak->Makespan({1, 1, 1}), 3 * m + 2 * (p - 1) - std::min(m - 1, p - 1));
      if (p > 1 && m > 1) {
        EXPECT_LT(at_peak->Makespan({1, 1, 1}), one_f_one_b);
      }
      request.peak_limit = 1;  // one micro-batch at a time
      const auto lowest = MakeSchedule("zb-auto", request);
      ASSERT_TRUE(lowest.ok()) << lowest.status();
      EXPECT_EQ(lowest->PeakStashedOnDevice(0), 1);
    }
  }
}

TEST(ZeroBubbleTest, AutoRejectsImpossibleRequests) {
  ScheduleRequest request{3, 4};
  request.costs = {{1, 1, 1}};
  EXPECT_EQ(MakeSchedule("zb-auto", request).status().message(),
            "schedule zb-auto: costs of 1 stages; it has 3");
  request = {3, 4};
  request.peak_limit = -1;
  EXPECT_FALSE(MakeSchedule("zb-auto", request).ok());
}

}  // namespace
}  // namespace dpipe
