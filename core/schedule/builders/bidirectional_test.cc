#include "core/schedule/builders/bidirectional.h"

#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

const PassCosts kEqual = {1, 1, 0};  // F = B

TEST(BidirectionalTest, ChimeraMatchesClosedForm) {
  for (int p = 2; p <= 12; p += 2) {
    for (int n = 2; n <= 4 * p; n += 2) {
      const Schedule schedule = NamedSchedule("chimera", RequestOf(p, n));
      const int missing = (p - n % p) % p;  // micro-batches missing in the last unit
      EXPECT_EQ(schedule.Makespan(kEqual), 2 * n + p - 2 + missing) << p << " " << n;
      EXPECT_EQ(MaxPeakStashed(schedule), std::min(n, p)) << p << " " << n;
      if (missing > 0) continue;
      EXPECT_NEAR(schedule.BubbleRatio(kEqual), (p - 2.0) / (2 * n + p - 2), 1e-12);
    }
  }
}

TEST(BidirectionalTest, ChimeraOfFourDevicesByHand) {
  // time  0    1    2    3    4    5    6    7    8    9
  // 0     F0.0 F0.1      F7.0 B7.0 F7.1 B7.1 B0.0      B0.1
  EXPECT_EQ(NamedSchedule("chimera", RequestOf(4, 4)).ToString().substr(0, 39),
            "F0.0 F0.1 F7.0 B7.0 F7.1 B7.1 B0.0 B0.1");
}

TEST(BidirectionalTest, BitPipeMatchesClosedForm) {
  for (int p = 2; p <= 10; p += 2) {
    for (int n = 2; n <= 3 * p; n += 2) {
      const Schedule schedule = NamedSchedule("bitpipe", RequestOf(p, n));
      const int missing = (p - n % p) % p;
      EXPECT_EQ(schedule.Makespan(kEqual), 4 * n + p - 2 + 3 * missing) << p << " " << n;
      EXPECT_EQ(MaxPeakStashed(schedule), std::min(2 * n, 2 * p)) << p << " " << n;
    }
  }
}

TEST(BidirectionalTest, MirroredChainsShareMicroBatches) {
  for (const char* name : {"chimera", "bitpipe"}) {
    const Schedule schedule = NamedSchedule(name, RequestOf(4, 6));
    ASSERT_EQ(schedule.chains().size(), 2u);
    for (size_t k = 0; k < schedule.chains()[0].devices.size(); ++k) {
      EXPECT_EQ(schedule.chains()[0].devices[k], 3 - schedule.chains()[1].devices[k]);
    }
    EXPECT_EQ(schedule.chains()[0].num_micro_batches, 3);
    EXPECT_EQ(schedule.num_micro_batches(), 6);
  }
}

TEST(BidirectionalTest, RespectsLimits) {
  for (int p = 2; p <= 6; p += 2) {
    for (int limit = 1; limit <= 2 * p; ++limit) {
      EXPECT_LE(MaxPeakStashed(NamedSchedule("chimera", RequestOf(p, 8, limit))), limit);
      const auto bitpipe = MakeSchedule("bitpipe", RequestOf(p, 8, limit));
      EXPECT_EQ(bitpipe.ok(), limit >= 2) << bitpipe.status();
      if (!bitpipe.ok()) continue;
      EXPECT_LE(MaxPeakStashed(*bitpipe), limit);
    }
  }
}

TEST(BidirectionalTest, RandomCostsStayWithinBounds) {
  RandomStream stream(6, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 100; ++trial) {
    const char* name = trial % 2 == 0 ? "chimera" : "bitpipe";
    const int p = 2 + 2 * static_cast<int>(stream.NextBelow(3));
    ScheduleRequest request = RequestOf(p, 2 + 2 * static_cast<int>(stream.NextBelow(8)));
    const Schedule plain = NamedSchedule(name, request);
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(50)); };
    for (int s = 0; s < plain.num_stages(); ++s) request.costs.push_back({draw(), draw(), draw()});
    const Schedule schedule = NamedSchedule(name, request);
    EXPECT_LE(schedule.Makespan(request.costs), plain.Makespan(request.costs));
    EXPECT_GE(schedule.Makespan(request.costs), MakespanBound(schedule, request.costs));
  }
}

}  // namespace
}  // namespace dpipe
