// Plans of schedules with several stages a device, several chains, laps and recomputation.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/fake_profile.h"
#include "core/schedule/lower.h"
#include "core/schedule/memory.h"
#include "core/schedule/plan_lists.h"
#include "core/schedule/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

const ListStyle kStages{true, false};
const ListStyle kSamples{true, true};

Slot F(int stage, int m) { return {Pass::kForward, m, stage}; }
Slot B(int stage, int m) { return {Pass::kBackward, m, stage}; }

struct Case {
  Schedule schedule;
  CostModel cost;
  LayoutOptions layout;
  LowerOptions options;

  absl::StatusOr<Plan> Lower() const {
    DPIPE_ASSIGN_OR_RETURN(const PipelineLayout placed, MakeLayout(schedule, layout));
    return LowerPlan(placed, schedule, options, cost);
  }
};

Case MakeCase(const ModelProfile& profile, std::vector<ScheduleChain> chains,
              std::vector<std::vector<Slot>> slots, int num_devices, int num_stages) {
  auto schedule = Schedule::Create("by hand", std::move(chains), std::move(slots));
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  auto cost = CostModel::Create(profile, IdealCluster(num_devices));
  EXPECT_TRUE(cost.ok()) << cost.status();
  Case c{*std::move(schedule), *std::move(cost), {}, {}};
  c.layout.num_devices = num_devices;
  for (int s = 0; s < num_stages; ++s) c.layout.layers.push_back({s, s + 1});
  return c;
}

// Stages 0 and 3 on device 0, 1 and 2 on device 1.
Case V() {
  UniformProfileOptions profile;
  profile.value_bytes = 10;
  profile.saved_bytes = 100;
  return MakeCase(UniformProfile(profile), {{{0, 1, 1, 0}, 2, 0, 0}},
                  {{F(0, 0), F(0, 1), F(3, 0), B(3, 0), F(3, 1), B(3, 1), B(0, 0), B(0, 1)},
                   {F(1, 0), F(2, 0), F(1, 1), F(2, 1), B(2, 0), B(1, 0), B(2, 1), B(1, 1)}},
                  2, 4);
}

TEST(LowerChainsTest, VByHand) {
  Case c = V();
  c.options.recv_lookahead = 0;
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Stage 1 hands over to stage 2, and gradients back, without messages.
  EXPECT_EQ(ListOf(*plan, 0, kStages),
            "F0.0 >1 F0.1 >1 <1 F3.0 B3.0 >1 <1 F3.1 B3.1 >1 <1 B0.0 <1 B0.1 O");
  EXPECT_EQ(ListOf(*plan, 1, kStages),
            "<0 F1.0 F2.0 >0 <0 F1.1 F2.1 >0 <0 B2.0 B1.0 >0 <0 B2.1 B1.1 >0 O");
  EXPECT_TRUE(VerifyPlan(*plan, c.cost).ok()) << VerifyPlan(*plan, c.cost);
}

}  // namespace
}  // namespace dpipe
