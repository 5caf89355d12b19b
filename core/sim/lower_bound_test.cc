#include "core/sim/lower_bound.h"

#include "core/base/philox.h"
#include "core/schedule/random_plan.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(LowerBoundTest, NoSimulatedStepBeatsIt) {
  int tight = 0;
  constexpr int kInstances = 3000;
  for (int i = 0; i < kInstances; ++i) {
    RandomStream stream(11, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(cost.ok()) << cost.status();
    const StepBound bound = StepLowerBound(instance.plan, *cost);
    const auto steady = SimulateSteadyState(instance.plan, *cost);
    ASSERT_TRUE(steady.ok()) << i << ": " << steady.status();
    ASSERT_GE(steady->stats.step_ns, bound.bound_ns) << "instance " << i;
    const auto training = Simulate(instance.plan, *cost);
    ASSERT_TRUE(training.ok()) << i << ": " << training.status();
    ASSERT_GE(training->stats.step_ns, bound.bound_ns) << "instance " << i;
    tight += steady->stats.step_ns == bound.bound_ns;
  }
  // A bound that is never reached would be no bound worth printing.
  EXPECT_GT(tight, kInstances / 100);
}

}  // namespace
}  // namespace dpipe
