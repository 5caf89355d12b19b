#include "core/schedule/builders/weight_filling.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr Pass F = Pass::kForward;
constexpr Pass I = Pass::kInputGrad;

// One chain over two devices.
std::vector<ScheduleChain> TwoStages(int num_micro_batches) {
  ScheduleChain chain;
  chain.devices = {0, 1};
  chain.num_micro_batches = num_micro_batches;
  return {chain};
}

const std::vector<std::vector<Slot>> kOrder = {{{F, 0, 0}, {F, 1, 0}, {I, 0, 0}, {I, 1, 0}},
                                               {{F, 0, 1}, {I, 0, 1}, {F, 1, 1}, {I, 1, 1}}};

std::string SlotsOf(const WeightFillingOptions& options) {
  const auto schedule = FillWeightGradients("test", TwoStages(2), kOrder, options);
  return schedule.ok() ? schedule->ToString() : std::string(schedule.status().message());
}

TEST(WeightFillingTest, RunsWeightGradientInsteadOfWaiting) {
  // time      0  1  2  3  4  5  6
  // device 0  F0 F1 .  I0 W0 I1 W1
  // device 1  .  F0 I0 F1 I1 W0 W1
  EXPECT_EQ(SlotsOf({}), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
}

TEST(WeightFillingTest, MakesRoomBeforeForwardPass) {
  // Device 1 may keep one micro-batch, so W0 runs before F1.
  WeightFillingOptions options;
  options.device_limit = 2;
  EXPECT_EQ(SlotsOf(options), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
  options.device_limit = 1;
  EXPECT_EQ(SlotsOf(options),
            "schedule test: device 0 gets stuck after 1 of 6 slots with at most 1 pairs of stage "
            "and micro-batch kept");
}

TEST(WeightFillingTest, PatienceWaitsForTheNextPass) {
  // With weight gradients of 4, device 0 is free at 4, and I1 is ready at 5.
  WeightFillingOptions options;
  options.costs.assign(2, {1, 1, 4});
  EXPECT_EQ(SlotsOf(options), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
  options.patience = 0.5;  // 1 < 0.5 * 4
  EXPECT_EQ(SlotsOf(options), "F0 F1 I0 I1 W0 W1\nF0 I0 F1 I1 W0 W1\n");
  options.patience = 0.25;  // 1 is not less than 0.25 * 4
  EXPECT_EQ(SlotsOf(options), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
}

TEST(WeightFillingTest, RejectsWrongNumberOfCosts) {
  WeightFillingOptions options;
  options.costs.assign(3, {1, 1, 1});
  EXPECT_EQ(SlotsOf(options), "schedule test: costs of 3 stages; there are 2");
}

}  // namespace
}  // namespace dpipe
