#include "core/planner/fill/weight_order.h"

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/fill/fill_plan.h"
#include "core/schedule/generators.h"
#include "core/schedule/verification/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::vector<Slot> WithoutWeightGrads(const std::vector<Slot>& slots) {
  std::vector<Slot> others;
  for (const Slot& slot : slots) {
    if (slot.pass != Pass::kWeightGrad) others.push_back(slot);
  }
  return others;
}

TEST(WeightOrderTest, JointBackwardPassesHaveOneOrder) {
  EXPECT_EQ(WeightOrders(*MakeSchedule("1f1b", {3, 6}), {}).size(), 1);
}

// Two devices, two micro-batches; each pass takes one unit of time:
//   device 0: F0 F1 .. I0 .. I1, device 1: . F0 I0 F1 I1
TEST(WeightOrderTest, ByHand) {
  const auto F = [](int m) { return Slot{Pass::kForward, m, 0}; };
  const auto I = [](int m) { return Slot{Pass::kInputGrad, m, 0}; };
  const auto W = [](int m) { return Slot{Pass::kWeightGrad, m, 0}; };
  const absl::StatusOr<Schedule> schedule = Schedule::CreateStraight(
      "split", 2, {{F(0), F(1), I(0), I(1), W(0), W(1)}, {F(0), I(0), F(1), W(0), I(1), W(1)}});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::set<std::string> orders;
  for (const Schedule& order : WeightOrders(*schedule, {})) orders.insert(order.ToString());
  // Expected: the schedule itself, weight gradients at once, all at the end, and fitted ones.
  // Fitted: device 0 runs F0 at 0, F1 at 1, I0 at 3 and I1 at 5, so W0 fits in the gap before I1.
  // Device 1 has no gap after its first input gradient.
  const auto text = [](const std::vector<std::vector<Slot>>& lists) {
    return Schedule::CreateStraight("split", 2, lists)->ToString();
  };
  const std::vector<Slot> at_once0 = {F(0), F(1), I(0), W(0), I(1), W(1)};
  const std::vector<Slot> late0 = {F(0), F(1), I(0), I(1), W(0), W(1)};
  const std::vector<Slot> at_once1 = {F(0), I(0), W(0), F(1), I(1), W(1)};
  const std::vector<Slot> late1 = {F(0), I(0), F(1), I(1), W(0), W(1)};
  EXPECT_EQ(orders, (std::set<std::string>{schedule->ToString(), text({at_once0, at_once1}),
                                           text({late0, late1}), text({at_once0, late1})}));
}

class WeightOrdersOf : public testing::TestWithParam<std::string> {};

TEST_P(WeightOrdersOf, MovesOnlyWeightGradientsWithinLimits) {
  RandomStream random(31, 0, 0, RandomPurpose::kTest);
  int num_orders = 0;
  for (int round = 0; round < 30; ++round) {
    ScheduleRequest request;
    request.num_devices = 2 + random.NextBelow(3);
    request.num_micro_batches = request.num_devices * (1 + random.NextBelow(3));
    const Schedule schedule = *MakeSchedule(GetParam(), request);
    WeightOrderOptions options;
    for (int s = 0; s < schedule.num_stages(); ++s) {
      options.costs.push_back(
          {1 + random.NextBelow(9), 1 + random.NextBelow(9), 1 + random.NextBelow(9)});
    }
    const int room = random.NextBelow(4);
    for (int d = 0; d < schedule.num_devices() && room < 3; ++d) {
      options.device_limits.push_back(schedule.PeakStashedOnDevice(d) + room);
    }
    const std::vector<Schedule> orders = WeightOrders(schedule, options);
    ASSERT_EQ(orders[0].ToString(), schedule.ToString());
    std::set<std::string> texts;
    for (const Schedule& order : orders) {
      ASSERT_TRUE(order.Verify().ok());
      ASSERT_TRUE(texts.insert(order.ToString()).second);
      for (int d = 0; d < schedule.num_devices(); ++d) {
        ASSERT_EQ(order.slots(d).size(), schedule.slots(d).size());
        ASSERT_EQ(WithoutWeightGrads(order.slots(d)), WithoutWeightGrads(schedule.slots(d)));
        if (!options.device_limits.empty()) {
          ASSERT_LE(order.PeakStashedOnDevice(d), options.device_limits[d]);
        }
      }
    }
    num_orders += static_cast<int>(orders.size());
  }
  EXPECT_GT(num_orders, 90);
}

// After filling, all orders have valid plans, and the best order is sometimes faster than the
// schedule itself.
TEST_P(WeightOrdersOf, BestOrderIsSometimesFaster) {
  RandomStream random(32, 0, 0, RandomPurpose::kTest);
  int better = 0;
  double sum = 0;
  for (int round = 0; round < 20; ++round) {
    RandomProfileOptions sizes;
    sizes.min_layers = sizes.max_layers = 8;
    ScheduleRequest request;
    request.num_devices = 2 + random.NextBelow(3);
    request.num_micro_batches = request.num_devices * (1 + random.NextBelow(2));
    const CostModel cost =
        *CostModel::Create(RandomProfile(random, sizes), IdealCluster(request.num_devices));
    const Schedule schedule = *MakeSchedule(GetParam(), request);
    LayoutOptions layout_options;
    layout_options.num_devices = request.num_devices;
    layout_options.micro_batch_sizes = {1 + static_cast<int>(random.NextBelow(3))};
    WeightOrderOptions options;
    for (int s = 0; s < schedule.num_stages(); ++s) {
      const LayerRange layers = {8 * s / schedule.num_stages(),
                                 8 * (s + 1) / schedule.num_stages()};
      layout_options.layers.push_back(layers);
      const LayerTimes& times = cost.Times(cost.backbone(), layout_options.micro_batch_sizes[0]);
      const Nanos input_grad = times.InputGrad(layers);
      options.costs.push_back(
          {times.Forward(layers), input_grad, times.Backward(layers) - input_grad});
    }
    const PipelineLayout layout = *MakeLayout(schedule, layout_options);
    const auto step_ns = [&](const Schedule& order) -> absl::StatusOr<Nanos> {
      const absl::StatusOr<FilledPlan> filled = FillPlan(layout, order, {}, {}, cost);
      if (!filled.ok()) return filled.status();
      const absl::Status verified = VerifyPlan(filled->plan, cost);
      if (!verified.ok()) return verified;
      return filled->step_ns;
    };
    const absl::StatusOr<Nanos> own = step_ns(schedule);
    ASSERT_TRUE(own.ok()) << own.status();
    Nanos best = *own;
    for (const Schedule& order : WeightOrders(schedule, options)) {
      const absl::StatusOr<Nanos> step = step_ns(order);
      ASSERT_TRUE(step.ok()) << step.status();
      best = std::min(best, *step);
    }
    better += best < *own;
    sum += static_cast<double>(best) / static_cast<double>(*own);
  }
  std::printf(
      "%s: another order is faster in %d of 20 instances; mean step %.4f of the schedule's own\n",
      GetParam().c_str(), better, sum / 20);
  EXPECT_GT(better, 0);
}

INSTANTIATE_TEST_SUITE_P(Schedules, WeightOrdersOf,
                         testing::Values("zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace dpipe
