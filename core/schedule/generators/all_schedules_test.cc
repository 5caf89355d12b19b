// For every generator and any request: it returns a schedule that verifies and matches the request,
// or an error with a reason.
#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// `costs`: of all stages, or empty.
void ExpectSound(const std::string& name, const ScheduleRequest& request) {
  const auto schedule = MakeSchedule(name, request);
  const std::string what = name + " p=" + std::to_string(request.num_devices) +
                           " m=" + std::to_string(request.num_micro_batches) +
                           " limit=" + std::to_string(request.peak_limit);
  if (!schedule.ok()) {
    EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument) << what;
    // The message names the schedule and has at least one number.
    const std::string message(schedule.status().message());
    EXPECT_EQ(message.find("schedule " + name + ": "), 0u) << what << ": " << message;
    EXPECT_NE(message.find_first_of("0123456789", 10 + name.size()), std::string::npos) << message;
    return;
  }
  EXPECT_EQ(schedule->name(), name);
  EXPECT_EQ(schedule->num_devices(), request.num_devices) << what;
  EXPECT_EQ(schedule->num_micro_batches(), request.num_micro_batches) << what;
  EXPECT_TRUE(schedule->Verify().ok()) << what << schedule->Verify();
  std::vector<PassCosts> costs = request.costs;
  if (costs.empty()) costs.assign(schedule->num_stages(), {1, 1, 1});
  EXPECT_GE(schedule->Makespan(costs), MakespanBound(*schedule, costs)) << what;
  EXPECT_TRUE(CheckPeakLimit(*schedule, request.peak_limit).ok()) << what;
}

TEST(AllSchedulesTest, VerifyOrReturnReason) {
  for (const std::string& name : ScheduleNames()) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 24; ++m) {
        ScheduleRequest request;
        request.num_devices = p;
        request.num_micro_batches = m;
        ExpectSound(name, request);
      }
    }
  }
}

TEST(AllSchedulesTest, RandomCostsAndLimits) {
  RandomStream stream(10, 0, 0, RandomPurpose::kTest);
  for (const std::string& name : ScheduleNames()) {
    const ScheduleTraits traits = *TraitsOf(name);
    for (int trial = 0; trial < 40; ++trial) {
      ScheduleRequest request;
      request.num_devices = name == "single" ? 1 : 1 + static_cast<int>(stream.NextBelow(8));
      request.num_micro_batches = 1 + static_cast<int>(stream.NextBelow(24));
      const int num_stages = traits.stages_per_device * request.num_devices;
      const uint32_t scale = trial % 3 == 0 ? 2 : 1000;  // few values: equal times
      const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(scale)); };
      for (int s = 0; s < num_stages; ++s) request.costs.push_back({draw(), draw(), draw()});
      ExpectSound(name, request);
      request.peak_limit = 1 + static_cast<int>(stream.NextBelow(3 * num_stages));
      ExpectSound(name, request);
    }
  }
}

TEST(AllSchedulesTest, HaveSelfConditioningVariant) {
  for (const std::string& name : ScheduleNames()) {
    for (int p : {1, 2, 4}) {
      for (int m : {1, 4, 8}) {
        ScheduleRequest request;
        request.num_devices = p;
        request.num_micro_batches = m;
        const auto plain = MakeSchedule(name, request);
        request.self_conditioning = true;
        const auto schedule = MakeSchedule(name, request);
        ASSERT_EQ(schedule.ok(), plain.ok()) << name << " " << schedule.status();
        if (!plain.ok()) continue;
        EXPECT_TRUE(schedule->Verify().ok()) << name << schedule->Verify();
        ASSERT_EQ(schedule->chains().size(), plain->chains().size()) << name;
        for (size_t c = 0; c < plain->chains().size(); ++c) {
          const size_t count = plain->chains()[c].devices.size();
          EXPECT_EQ(schedule->chains()[c].devices.size(), 2 * count) << name;
          EXPECT_EQ(schedule->chains()[c].num_forward_only, static_cast<int>(count)) << name;
        }
        for (int d = 0; d < p; ++d) {
          EXPECT_EQ(schedule->PeakStashedOnDevice(d), plain->PeakStashedOnDevice(d)) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dpipe
