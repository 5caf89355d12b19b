#include "core/schedule/schedule_traits.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(ScheduleTraitsTest, EveryRegisteredScheduleHasThem) {
  for (const std::string& name : ScheduleNames()) EXPECT_TRUE(TraitsOf(name).ok()) << name;
  EXPECT_EQ(TraitsOf("2f2b").status().message(), "schedule '2f2b' has no traits");
}

TEST(ScheduleTraitsTest, RefusesWhatCannotBe) {
  const auto error = [](const std::string& name, int p, int m, int stages_per_device = 0) {
    ScheduleRequest request;
    request.num_devices = p;
    request.num_micro_batches = m;
    request.stages_per_device = stages_per_device;
    return std::string(CheckRequest(name, *TraitsOf(name), request).message());
  };
  EXPECT_EQ(error("1f1b", 3, 5), "");
  EXPECT_EQ(error("single", 2, 1), "schedule single: 2 devices; it takes at most 1");
  EXPECT_EQ(error("chimera", 1, 2), "schedule chimera: 1 devices; it takes at least 2");
  EXPECT_EQ(error("chimera", 3, 2), "schedule chimera: 3 devices; it takes multiples of 2");
  EXPECT_EQ(error("chimera", 4, 3), "schedule chimera: 3 micro-batches; it takes multiples of 2");
  EXPECT_EQ(error("interleaved", 4, 6),
            "schedule interleaved: 6 micro-batches; it takes multiples of the 4 devices");
  EXPECT_EQ(error("interleaved", 4, 8, 3), "");
  EXPECT_EQ(error("zb-v", 4, 8, 3), "schedule zb-v: 3 stages per device; it has 2");
}

// What the traits say is what a request that they allow gives.
TEST(ScheduleTraitsTest, DescribeTheResult) {
  for (const std::string& name : ScheduleNames()) {
    const ScheduleTraits traits = *TraitsOf(name);
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 12; ++m) {
        ScheduleRequest request;
        request.num_devices = p;
        request.num_micro_batches = m;
        const auto schedule = MakeSchedule(name, request);
        EXPECT_EQ(schedule.ok(), CheckRequest(name, traits, request).ok())
            << name << " " << p << " " << m << " " << schedule.status();
        if (!schedule.ok()) continue;
        EXPECT_EQ(schedule->num_stages(), traits.stages_per_device * p) << name;
        int copies = 0;
        bool splits = false;
        for (const ScheduleChain& chain : schedule->chains()) copies += chain.backbone == 0;
        for (int d = 0; d < p; ++d) {
          for (const Slot& slot : schedule->slots(d)) splits |= slot.pass == Pass::kWeightGrad;
        }
        EXPECT_EQ(copies, traits.weight_copies) << name;
        EXPECT_TRUE(traits.splits_backward || !splits) << name;
      }
    }
  }
}

}  // namespace
}  // namespace dpipe
